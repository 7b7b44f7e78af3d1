#!/usr/bin/env python3
"""Compares the parts that a tokenizer.json is made of with the `tokenizers` package, in random combinations.

Usage: compare_components.py PROGRAM COUNT [SEED]    (pip install tokenizers==0.23.3)

Makes COUNT small tokenizers of normalizers (NFC, NFD, Prepend, Replace by text and by pattern, sequences), pre-tokenizers
(Split with every behavior, inverted or not, Digits, Metaspace, ByteLevel), added tokens with every flag, and BPE models
whose tokens are all texts of up to three characters, so that a cut in another place shows. Encodes 40 strings with each.
A file that the package refuses, or for which it panics or does not end within ten seconds, is left out, but ours must end on
it; what ours refuses is counted by reason. Prints one JSON object.
"""
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

ALPHABET = "ab A1▁é"
PATTERNS = [" {2,}", "a*", "^", "$", "\\s+$", "(?<=a)b", "(?=A)", "a|b", "[^a]", "\\s", "b+", "(?<!a)b", "\\d", "", "a(?=b)",
            "^a|b$", "(?i:a)", "é", "\\p{Lu}", "\\p{N}{1,3}", " ?\\p{L}+", "x?"]
CONTENTS = ["", "▁", "a", "Z", " ", "b1", "é"]
BEHAVIORS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]
CHARACTERS = "aab bA 11▁é\u0301e<s>x\n"


def byte_spelling():
    """GPT-2's printable character of each byte."""
    printable = [*range(33, 127), *range(0xa1, 0xad), *range(0xae, 0x100)]
    table = {b: chr(b) for b in printable}
    table.update((b, chr(256 + i)) for i, b in enumerate(b for b in range(256) if b not in table))
    return table


def model(rng, byte_level):
    if byte_level:
        spelling = byte_spelling()
        vocab = {spelling[b]: b for b in range(256)}
        letters = [spelling[b] for b in b"ab A1"]
    else:
        letters = list(ALPHABET)
        vocab = {c: i for i, c in enumerate(["<unk>", *letters, *"xyz\n"])}
    merges = []
    for size in (2, 3):
        for parts in itertools.product(letters, repeat=size):
            text = "".join(parts)
            if text not in vocab:
                vocab[text] = len(vocab)
                merges.append([text[:-1], text[-1]])
    return {"type": "BPE", "dropout": None, "unk_token": None if byte_level or rng.random() < 0.3 else "<unk>",
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": rng.random() < 0.5,
            "byte_fallback": False, "ignore_merges": rng.random() < 0.3, "vocab": vocab, "merges": merges}


def normalizer(rng, depth=0):
    kind = rng.randrange(7 if depth < 2 else 6)
    if kind == 0:
        return {"type": "NFC"} if depth else None
    if kind == 1:
        return {"type": rng.choice(["NFC", "NFD"])}
    if kind == 2:
        return {"type": "Prepend", "prepend": rng.choice(["▁", "a"])}
    if kind < 6:
        pattern = {"String": rng.choice(["a", " ", "ab", "é"])} if kind == 3 else {"Regex": rng.choice(PATTERNS)}
        return {"type": "Replace", "pattern": pattern, "content": rng.choice(CONTENTS)}
    return {"type": "Sequence", "normalizers": [normalizer(rng, depth + 1) for _ in range(rng.randrange(4))]}


def split(rng):
    by_pattern = rng.random() < 0.75
    pattern = {"Regex": rng.choice(PATTERNS)} if by_pattern else {"String": rng.choice(["a", " ", "ab", "▁", ""])}
    return {"type": "Split", "pattern": pattern, "behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.3}


def pre_tokenizer(rng, byte_level):
    if byte_level:
        steps = [split(rng) for _ in range(rng.randrange(3))]
        if rng.random() < 0.3:
            steps.append({"type": "Digits", "individual_digits": rng.random() < 0.5})
        last = {"type": "ByteLevel", "add_prefix_space": not steps and rng.random() < 0.5, "trim_offsets": True,
                "use_regex": rng.random() < 0.3}
        return {"type": "Sequence", "pretokenizers": [*steps, last]}
    kind = rng.randrange(4)
    if kind == 0:
        return None
    if kind == 1:
        return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": rng.choice(["always", "first", "never"]),
                "split": rng.random() < 0.5}
    return {"type": "Sequence", "pretokenizers": [split(rng) for _ in range(rng.randrange(1, 4))]}


def added_tokens(rng, vocab):
    out = []
    for content in rng.sample(["ab", "<s>", "é", "A a", " a", "1", "<x>", "▁a"], rng.randrange(4)):
        fresh = len(vocab) + sum(t["content"] not in vocab for t in out)
        out.append({"id": vocab.get(content, fresh), "content": content, "single_word": rng.random() < 0.2,
                    "lstrip": rng.random() < 0.3, "rstrip": rng.random() < 0.3, "normalized": rng.random() < 0.6,
                    "special": rng.random() < 0.4})
    return out


def tied(reference, tokens):
    """true when two added tokens are looked for as one text: the package takes either, by chance."""
    normal = [reference.normalizer.normalize_str(t["content"]) for t in tokens
              if reference.normalizer and t["normalized"]]
    return len(set(normal)) < len(normal)


def ours(program, directory, texts):
    """Ids a text, or the reason of the refusal; not to end in a minute is an exception."""
    done = subprocess.run([program, "data", "tokenize", "--tokenizer", directory, "--lines", "json", "--json"],
                          input="".join(json.dumps(t) + "\n" for t in texts).encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60)
    if done.returncode:
        return done.stderr.decode().split(": ", 2)[-1].strip()
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def encode(parts, texts):
    """Ids a text from the package, or None: refused, or a tie."""
    from tokenizers import Tokenizer
    reference = Tokenizer.from_str(json.dumps(parts))
    if tied(reference, parts["added_tokens"]):
        return None
    return [reference.encode(t, add_special_tokens=False).ids for t in texts]


def theirs(parts, texts, seconds=10):
    """As encode, but in a process of its own; None also when the package panics or does not end in that time."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends native code too, which a handler would not
        signal.alarm(seconds)
        answer = None
        try:
            answer = encode(parts, texts)
        finally:  # a panic of the package is none of Exception's
            with os.fdopen(write_end, "w") as out:
                json.dump(answer, out)
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text or "null")


def main():
    program, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng, directory = random.Random(seed), tempfile.mkdtemp()
    compared = differing = left_out = 0
    refused = {}
    for _ in range(count):
        byte_level = rng.random() < 0.5
        m = model(rng, byte_level)
        parts = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(rng, m["vocab"]),
                 "normalizer": normalizer(rng), "pre_tokenizer": pre_tokenizer(rng, byte_level), "post_processor": None,
                 "decoder": None, "model": m}
        texts = ["".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(14))) for _ in range(40)]
        want = theirs(parts, texts)
        with open(os.path.join(directory, "tokenizer.json"), "w") as f:
            json.dump(parts, f)
        got = ours(program, directory, texts)
        if want is None:
            left_out += 1
            continue
        if isinstance(got, str):
            refused[got] = refused.get(got, 0) + 1
            continue
        compared += 1
        for text, a, b in zip(texts, got, want):
            if a != b:
                differing += 1
                del m["vocab"], m["merges"]
                print(repr(text), "\n ours  ", a, "\n theirs", b, "\n", parts, file=sys.stderr)
                break
    print(json.dumps({"tokenizers": compared, "strings": 40 * compared, "differing": differing, "refused": refused,
                      "left_out": left_out}))


if __name__ == "__main__":
    main()
