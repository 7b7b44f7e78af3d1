#!/usr/bin/env python3
"""The small goldens of this repository, from those that shared/data/golden/make_golden.py made.

Usage: reduce.py GOLDEN_DIR OUT_DIR      standard library only

For each of the four trained families: config.json, model.safetensors and golden.json as they are, and of
golden.safetensors the float64 run's gradients alone (the trained weights and the logits are left out).
"""
import json, os, shutil, struct, sys

FAMILIES = ["qwen3", "qwen2.5", "llama3", "mistral"]


def reduce(source, target):
    with open(source, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(length))
        data = f.read()
    kept, at, parts = {"__metadata__": {"format": "pt"}}, 0, []
    for name in sorted(n for n in header if n.startswith("grad.")):
        begin, end = header[name]["data_offsets"]
        kept[name] = dict(header[name], data_offsets=[at, at + end - begin])
        parts.append(data[begin:end])
        at += end - begin
    text = json.dumps(kept, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main(source, target):
    for family in FAMILIES:
        os.makedirs(os.path.join(target, family), exist_ok=True)
        for name in ("config.json", "model.safetensors", "golden.json"):
            shutil.copy(os.path.join(source, family, name), os.path.join(target, family, name))
        reduce(os.path.join(source, family, "golden.safetensors"), os.path.join(target, family, "golden.safetensors"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
