#!/usr/bin/env python3
"""Makes train.jsonl and eval.jsonl from a plain text: make_rows.py input.txt (tinyshakespeare, public domain).

A row is {"text": ...}: whole speeches, about 480 characters; every twelfth row goes to eval.jsonl. 480 training rows.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CHARACTERS, TRAIN_ROWS = 480, 480


def rows(text):
    part = ""
    for speech in text.split("\n\n"):
        if part and len(part) + len(speech) > CHARACTERS:
            yield part
            part = ""
        part += ("\n\n" if part else "") + speech
        part = part[:CHARACTERS]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        everything = list(rows(f.read()))
    kept = everything[:TRAIN_ROWS * 12 // 11]
    for name, chosen in (("train.jsonl", [r for i, r in enumerate(kept) if i % 12 != 11]),
                         ("eval.jsonl", [r for i, r in enumerate(kept) if i % 12 == 11])):
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": r}) + "\n" for r in chosen)


if __name__ == "__main__":
    main()
