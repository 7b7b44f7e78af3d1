#!/usr/bin/env python3
"""One step of conversations with message weights in PyTorch, beside the gradients that lazytrain dumped. Prints one JSON
object. In float64: PyTorch's float32 is off by 7e-4 of a tensor's norm itself on rows of 800 tokens.

    loss = sum_t w_t nll_t / sum_t w_t, w_t the weight of the message in whose answer token t begins

Tokens, answers and weights are worked out here from the rendered text alone: an answer is what stands between the
assistant's header and the end of its <|im_end|>. Run it with the interpreter of the environment that data-weights makes.
"""
import argparse
import json

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

HEADER, END = "<|im_start|>assistant\n", "<|im_end|>"


def answers(text, messages):
    """[(begin, end, weight)] of the assistant's answers, in characters."""
    spans, at = [], 0
    for m in messages:
        if m["role"] != "assistant":
            continue
        begin = text.index(HEADER, at) + len(HEADER)
        at = text.index(END, begin) + len(END)
        assert text[begin:at] == m["content"] + END
        spans.append((begin, at, float(m.get("weight", 1))))
    return spans


def row(tokenizer, messages):
    plain = [{"role": m["role"], "content": m["content"]} for m in messages]
    text = tokenizer.apply_chat_template(plain, tokenize=False)
    made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = answers(text, messages)
    weights = [next((w for b, e, w in spans if b <= begin < e), 0.0) for begin, _ in made["offset_mapping"]]
    return torch.tensor(made["input_ids"]), torch.tensor(weights, dtype=torch.float32)


def losses(model, ids, weights):
    """(sum w nll in double, sum w) of a row."""
    logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1]
    nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    return (weights[1:].double() * nll.double()).sum(), weights[1:].double().sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("rows")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("dump", nargs="*", help="gradients that lazytrain dumped")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype))
    with open(args.rows) as f:
        rows = [row(tokenizer, json.loads(line)["messages"]) for line in f]
    total = sum(float(w[1:].double().sum()) for _, w in rows)
    loss = 0.0
    for ids, weights in rows:
        part, _ = losses(model, ids, weights)
        (part / total).backward()
        loss += float(part.detach())
    grads = {n: p.grad.double() for n, p in model.named_parameters() if p.grad is not None}
    norm = torch.sqrt(sum((g * g).sum() for g in grads.values()))
    compared = []
    for path in args.dump:
        ours = load_file(path)
        assert set(ours) == set(grads), set(ours) ^ set(grads)
        each = {n: (abs(float(ours[n].double().norm() / g.norm()) - 1), float((ours[n].double() - g).norm() / g.norm()))
                for n, g in grads.items()}
        worst = max(each, key=lambda n: each[n][1])
        compared.append({"norm_error": max(e[0] for e in each.values()), "error": each[worst][1], "where": worst})
    print(json.dumps({"loss": loss / total, "weight": total, "tokens": sum(int((w[1:] > 0).sum()) for _, w in rows),
                      "weights": [[float(x) for x in w] for _, w in rows], "ids": [i.tolist() for i, _ in rows],
                      "grad_norm": float(norm), "gradients": compared}))


main()
