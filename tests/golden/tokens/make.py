#!/usr/bin/env python3
"""Makes smollm2.jsonl: texts that tokenizers have got wrong (bug log, D4), with the ids that the `tokenizers` package gives
them for SmolLM2's tokenizer.json (Apache-2.0, Hugging Face), which is not copied here, and the text that it makes of those
ids: the same, but for bytes of which the vocabulary has no token.

    python3 -m venv V && V/bin/pip install tokenizers==0.23.3 && V/bin/python tests/golden/tokens/make.py TOKENIZER.json
"""
import json
import os
import sys

from tokenizers import Tokenizer

texts = ["", "a", " a", "a ", "\na", "\n\na", "\r\n", "a\r\nb", "\t a", " \ta", "\t\t", "a\tb"]
texts += [" " * n for n in range(1, 10)] + ["a" + " " * n + "b" for n in range(1, 10)]
texts += ["1234567"[:n] for n in range(1, 8)] + ["3.14159", "1,000,000", "x1y22z333"]
texts += ["don't", "DON'T", "I'll we've she'd THEY'RE it's 'tis", "can’t"]
texts += ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇨🇭"]
texts += ["é", "é", "अनुच्छेद १ सभी", "ภาษาไทย", "Привет, мир", "日本語のテキスト", "한국어", "שלום", "مرحبا"]
texts += ["a b", "a b", "a b", "a　b", "​x", "".join(map(chr, range(256)))]
texts += ["<|im_end|>", "<|im_start|>a", "a<|im_end|>", "<|im_end|><|im_end|>", "a <|endoftext|> b", "<|im_end"]
texts += ["_ __ ___", "foo(bar)[0] = {};"]
tokenizer = Tokenizer.from_file(sys.argv[1])
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "smollm2.jsonl"), "w") as f:
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        row = {"text": text, "ids": ids, "back": tokenizer.decode(ids, skip_special_tokens=False)}
        f.write(json.dumps(row) + "\n")
