#!/usr/bin/env python3
"""The training step of `lazytrain bench step` in PyTorch, for side-by-side figures. Prints one JSON object.

Everything stays resident and nothing is recomputed. A step is forward, loss over every token, backward, clip by the
global norm, fused AdamW, gradients set to none. Random token ids, seeded; PyTorch's own attention (sdpa); denormals
flushed. bf16: weights, gradients and moments are bfloat16 (without an FP32 master: less work than ours).

Run it with the interpreter of a virtual environment that holds torch and transformers (bench/step_vs_torch makes one).
"""
import argparse
import json
import resource
import statistics
import time

import torch
from transformers import AutoModelForCausalLM

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, metavar="DIR", help="a Hugging Face directory")
    parser.add_argument("--batch", type=int, default=4, help="rows a step")
    parser.add_argument("--seq", type=int, default=512, help="tokens a row")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them (the first one compiles)")
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-grad-norm", type=float, default=1.0, help="0: no clipping")
    return parser.parse_args()


def reset_peak_rss():
    """From here on VmHWM is the peak since this call, not since the start."""
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def peak_rss_bytes():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def make_step(model, args):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    forward = torch.compile(model) if args.mode == "compile" else model
    generator = torch.Generator().manual_seed(1)
    shape = (args.batch, args.seq)
    ids = torch.randint(0, model.config.vocab_size, shape, generator=generator)

    def step():
        loss = forward(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        if args.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=DTYPES[args.dtype], attn_implementation="sdpa")
    model.train()
    step = make_step(model, args)
    begin = time.perf_counter()
    losses = [step() for _ in range(args.warmup)]
    warmup_seconds = time.perf_counter() - begin
    whole_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    reset_peak_rss()
    seconds = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        losses.append(step())
        seconds.append(time.perf_counter() - begin)
    steps_peak = peak_rss_bytes()
    print(json.dumps({
        "tokens_per_second": args.batch * args.seq / statistics.median(seconds),
        "step_seconds": {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds),
                         "n": len(seconds)},
        "peak_rss_bytes": max(whole_peak, steps_peak),
        "peak_rss_bytes_of_steps": steps_peak,  # without loading and compiling
        "warmup_seconds": warmup_seconds,
        "losses": losses,
        "torch": torch.__version__,
        "mode": args.mode, "dtype": args.dtype, "threads": args.threads, "batch": args.batch, "seq": args.seq,
    }))


if __name__ == "__main__":
    main()
