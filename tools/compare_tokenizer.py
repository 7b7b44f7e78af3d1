#!/usr/bin/env python3
"""Compares `lazytrain data tokenize` with the `tokenizers` package on many strings.

Usage: compare_tokenizer.py PROGRAM TOKENIZER.json|DIR real|random COUNT [SEED]     (pip install tokenizers==0.23.3)

real: strings cut from the texts of LZT_DATA (WikiText-2, War and Peace, GSM8K, code, Chinese), with emoji, combining
marks and the tokenizer's own added tokens strewn in. random: Unicode strings of many scripts and of no script.
Prints {"strings", "bytes", "tokens", "differing"} and the first differences on stderr.
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.environ.get("LZT_DATA") or os.path.join(ROOT, "..", "shared", "data")


def texts():
    names = ["text/wikitext2/valid.txt", "text/war-and-peace/war-and-peace.txt", "sft/gsm8k/train.jsonl",
             "sft/llamafactory-demo/alpaca_zh_demo.json", "sft/llamafactory-demo/glaive_toolcall_en_demo.json",
             "text/tinyshakespeare/input.txt", "tokenizers/vectors/mixed_input.txt",
             "tokenizers/vectors/utf8_input.txt"]
    out = [open(os.path.join(DATA, n), encoding="utf-8", errors="replace").read() for n in names]
    for n in glob.glob(os.path.join(ROOT, "src", "*", "*.c")) + glob.glob(os.path.join(DATA, "templates", "*.jinja")):
        out.append(open(n, encoding="utf-8").read())
    return out


SPICE = ["\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "e\u0301", "\u0301", "a\u0300\u0323",
         "\u0323\u0301", "\uac00\u11a8", "\u1100\u1161", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22",
         "\r\n", "\t ", "   ", "\u00a0", "\u2028", "\u180e", "\u3000", "'s", "'S", "'\u017f", "'LL", "'re", "12345", "\u0663\u0664",
         "\u00bd", "\x00", "\ufeff", "\u200b", "\U000e0001", "\u212b", "\ufb01", "\u0958", "don't",
         "DON'T", "\u30ab\u3099"]


def real_strings(rng, added):
    pool = texts()
    big = [t for t in pool if len(t) > 200000]
    while True:
        t = rng.choice(big if rng.random() < 0.8 else pool)
        at = rng.randrange(len(t))
        s = t[at:at + rng.choice([3, 20, 60, 120, 300])]
        for _ in range(rng.choice([0, 0, 1, 3])):
            k = rng.randrange(len(s) + 1)
            s = s[:k] + rng.choice(SPICE + added) + s[k:]
        yield s


RANGES = [(0, 0x80), (0, 0x80), (0x20, 0x7f), (0x80, 0x250), (0x250, 0x600), (0x600, 0xe00), (0xe00, 0x1200),
          (0x1200, 0x2000), (0x2000, 0x2100), (0x2000, 0x3000), (0x3000, 0x3200), (0x4e00, 0xa000), (0xa000, 0xd800),
          (0xe000, 0x10000), (0x10000, 0x11000), (0x11000, 0x13000), (0x16000, 0x18000), (0x1a000, 0x1c000),
          (0x1d000, 0x1e000), (0x1e000, 0x20000), (0x20000, 0x32000), (0xe0000, 0xe0200), (0, 0x110000)]


def random_strings(rng, added):
    special = [c for s in SPICE for c in s]
    while True:
        out = []
        for _ in range(rng.randrange(1, 12)):
            a, b = rng.choice(RANGES)
            for _ in range(rng.randrange(1, 8)):
                c = rng.randrange(a, b)
                out.append(chr(c) if not 0xd800 <= c < 0xe000 else " ")
            if rng.random() < 0.4:
                out.append(rng.choice(special + [" ", "\n", "'"]))
            if added and rng.random() < 0.05:
                out.append(rng.choice(added))
        yield "".join(out)


def main():
    from tokenizers import Tokenizer
    program, path, kind, count = sys.argv[1:4] + [int(sys.argv[4])]
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    name = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    if not os.path.exists(name):
        from tokenizers import AddedToken, decoders, models, pre_tokenizers
        tok = Tokenizer(models.BPE.from_file(os.path.join(path, "vocab.json"), os.path.join(path, "merges.txt")))
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tok.add_special_tokens(["<|endoftext|>"])
    else:
        tok = Tokenizer.from_file(name)
    rng = random.Random(seed)
    added = [t.content for t in tok.get_added_tokens_decoder().values()][:40]
    source = real_strings(rng, added) if kind == "real" else random_strings(rng, added)
    strings = [next(source) for _ in range(count)]
    with tempfile.TemporaryFile("w+") as f:
        for s in strings:
            f.write(json.dumps(s) + "\n")
        f.flush()
        f.seek(0)
        out = subprocess.run([program, "data", "tokenize", "--tokenizer", path, "--lines", "json", "--threads", "2",
                              "--json"], stdin=f, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    assert len(out) == count, (len(out), count)
    differing = tokens = 0
    for s, line, e in zip(strings, out, tok.encode_batch(strings, add_special_tokens=False)):
        tokens += len(e.ids)
        if json.loads(line) != e.ids:
            differing += 1
            if differing <= 5:
                print(repr(s), "\n ours ", line, "\n theirs", e.ids, file=sys.stderr)
    print(json.dumps({"strings": count, "bytes": sum(len(s.encode()) for s in strings), "tokens": tokens,
                      "differing": differing}))


if __name__ == "__main__":
    main()
