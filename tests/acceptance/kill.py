"""Runs that are killed, or signalled, at random moments and go on: shared by spine-10-kill and data-resume."""
import signal

from lib import *


def newest(out_dir):
    root = os.path.join(out_dir, "checkpoints")
    steps = [n for n in os.listdir(root) if n.startswith("step-")] if os.path.isdir(root) else []
    return os.path.join(root, max(steps, key=lambda n: int(n[5:]))) if steps else None


def state_of(config, out_dir, steps, evals):
    """What must not depend on interruptions. Without save_steps the newest checkpoint is where a signal hit."""
    master = None
    if config["save_steps"]:
        table = safetensors(newest(out_dir))
        master = hashlib.sha256(b"".join(n.encode() + tensor_bytes(table[n]) for n in sorted(table))).hexdigest()
    return (weights_hash(os.path.join(out_dir, "final")), master, [(s["step"], s["loss"], s["grad_norm"]) for s in steps],
            [(e["step"], e["eval_loss"]) for e in evals])


def start(config_path):
    return subprocess.Popen([PROGRAM, "train", config_path, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, text=True)


def disturb(config_path, out_dir, seconds, number, r, complaints):
    """Starts, and sends the signal after a random share of an undisturbed run's time. Returns the exit code."""
    before = newest(out_dir)
    process = start(config_path)
    try:
        process.wait(r.uniform(0.02, 0.9) * seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    text = process.communicate()[1]
    after = newest(out_dir)
    if before and f"from step {before.rsplit('-', 1)[1]}" not in text and process.returncode in (0, 75):
        complaints.append(f"did not go on from {before}: {text[-200:]}")
    if before and not (after and int(after.rsplit("-", 1)[1]) >= int(before.rsplit("-", 1)[1])):
        complaints.append(f"{before} was lost")
    if number != signal.SIGKILL and process.returncode not in (0, 75):
        complaints.append(f"signal {number}: exit {process.returncode}: {text[-300:]}")
    return process.returncode


def scenario(name, config, number, wanted, r):
    """Runs under disturbance until `wanted` signals have hit, each run to its end. Returns (hits, complaints)."""
    undisturbed = train(config, "--quiet", name=name + "-undisturbed")
    expected = state_of(config, undisturbed.out_dir, undisturbed.steps, undisturbed.evals)
    hits, complaints, run = 0, [], 0
    while hits < wanted and run < 4 * wanted:
        out_dir = os.path.join(workdir(fresh=False), f"{name}-{run}")
        path = out_dir + ".yaml"
        with open(path, "w") as f:
            f.write(to_yaml({**config, "output_dir": out_dir}) + "\n")
        for _ in range(r.randint(1, 5)):
            hits += disturb(path, out_dir, undisturbed.seconds, number, r, complaints) in (-9, 75)
        last = lazytrain("train", path, "--quiet")
        rows = read_jsonl(os.path.join(out_dir, "metrics.jsonl"))
        steps, evals = [x for x in rows if "event" not in x], [x for x in rows if x.get("event") == "eval"]
        if last.code:
            complaints.append(f"{out_dir}: exit {last.code}: {last.err[-300:]}")
        elif state_of(config, out_dir, steps, evals) != expected:
            complaints.append(f"{out_dir}: another outcome")
        else:
            shutil.rmtree(out_dir)
        run += 1
    say(f"{name}: {hits} hits in {run} runs, {len(complaints)} complaints")
    return hits, complaints
