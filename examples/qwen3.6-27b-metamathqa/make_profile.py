#!/usr/bin/env python3
"""Writes profile.json: the source's machine, from what its document measured on Qwen3.6-27B, batch 72 x 1024.

    forward         7.1 s over 64 layers: 110 ms a layer
    backward        25.9 s without a drive (8bit_optim): 13 boundaries made again and 64 layers run forward once more, at 110
                    ms each; the head and its backward, 6 x 73,728 x 5,120 x 248,320 operations at 465 TFLOPS, the rate of the
                    whole backward; the rest over 64 layers: 253 ms a layer
    link            12 GB/s each way
    Adam            8.1 s over 26.9e9 parameters; ours touches 14 bytes of each (weight's halves, gradient, two moments)
    clip            6.3 s over their gradients, 2 bytes each
    zero            2.7 s over the same
    device, host    70 GiB of the card's memory may be used; 1.7 TiB of RAM are free

The drive (3.35 GB/s down, 2.83 up) stands in the profile, though no step program can use it yet.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "acceptance"))
from hand_profile import Machine, profile  # noqa: E402

PARAMETERS = 26.9e9
LAYER = (0.110, 0.253)  # seconds forward, backward
SOURCE = Machine("the source's: one 81.6 GB card, 12 GB/s, by its own measurements", device="published figures",
                 flops=465e12, up=12e9, down=12e9, host=46.5e9, device_bytes=70 << 30, host_bytes=1700 << 30,
                 layers={"full_attention": LAYER, "linear_attention": LAYER}, layer_tokens=72 * 1024,
                 rates={"adamw": 14 * PARAMETERS / 8.1, "norm": 2 * PARAMETERS / 6.3, "zero": 2 * PARAMETERS / 2.7})

config = json.load(open(os.path.join(HERE, "model", "config.json")))
out = profile(SOURCE, config, 72, 1024)
out["rates"] = sorted(out["rates"] + [
    {"name": name, "block_bytes": 1 << 28, "bytes_per_s": rate, "min": rate, "max": rate, "count": 1}
    for name, rate in (("nvme_read", 2.83e9), ("nvme_write", 3.35e9))], key=lambda r: (r["name"], r["block_bytes"]))
with open(os.path.join(HERE, "profile.json"), "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
