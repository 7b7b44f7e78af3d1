#!/usr/bin/env python3
"""Compares `lazytrain data tokenize` with SentencePiece on models of many settings, trained here.

Usage: compare_sentencepiece.py PROGRAM COUNT [SEED]     (pip install sentencepiece==0.2.3 tokenizers==0.23.3)

BPE and unigram, byte fallback or none, NFKC, case folding and identity, user-defined pieces; and Mistral's own model.
Prints {"models", "strings", "differing"} and the first differences on stderr.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import sentencepiece
from compare_tokenizer import DATA, random_strings, real_strings

MODELS = [dict(model_type="bpe", byte_fallback=True), dict(model_type="unigram"),
          dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity",
               remove_extra_whitespaces=False, user_defined_symbols=["<sep>", "ab"]),
          dict(model_type="bpe", normalization_rule_name="nfkc_cf", add_dummy_prefix=False,
               user_defined_symbols=["<sep>", "the"])]


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    folder = tempfile.mkdtemp()
    paths = [os.path.join(DATA, "tokenizers", "mistral-spm", "tokenizer.model")]
    for i, how in enumerate(MODELS):
        paths.append(os.path.join(folder, f"{i}.model"))
        sentencepiece.SentencePieceTrainer.train(
            input=os.path.join(DATA, "text", "tinyshakespeare", "input.txt"), model_prefix=paths[-1][:-6],
            vocab_size=2000, minloglevel=2, **how)
    sources = [real_strings(rng, ["<sep>", "ab"]), random_strings(rng, ["<sep>", "the "])]
    strings = [next(sources[i % 2]).replace("\x00", " ") for i in range(count)]  # a NUL ends a text there
    lines = "".join(json.dumps(s) + "\n" for s in strings).encode()
    differing = 0
    for path in paths:
        theirs = sentencepiece.SentencePieceProcessor(model_file=path)
        out = subprocess.run([program, "data", "tokenize", "--tokenizer", path, "--lines", "json"], input=lines,
                             stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        assert len(out) == count
        for s, line in zip(strings, out):
            want = theirs.encode(s)
            if json.loads(line) != want:
                differing += 1
                if differing < 5:
                    print(path, repr(s), "\n ours ", line, "\n theirs", want, file=sys.stderr)
    print(json.dumps({"models": len(paths), "strings": count * len(paths), "differing": differing}))


main()
