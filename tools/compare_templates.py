#!/usr/bin/env python3
"""Compares `lazytrain data render` with transformers on conversations of many shapes.

Usage: compare_templates.py PROGRAM [NAME...]    (pip install transformers==5.24 jinja2 tokenizers)

Every file of LZT_DATA/templates and the templates of the model directories there are rendered for 40 conversations,
with and without the generation prompt. Where transformers raises, ours must err. Prints one JSON object.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.environ.get("LZT_DATA") or os.path.join(ROOT, "..", "shared", "data")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Name"},
                                     "days": {"type": "integer", "default": 3},
                                     "unit": {"type": "string", "enum": ["C", "F"]},
                                     "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["city"]}}}
TOOL2 = {"type": "function", "function": {"name": "add", "description": "Adds é \"quoted\" <b>", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": ["number", "null"]}},
    "required": ["a", "b"]}}}
CALL = {"type": "function", "id": "call12345", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}}
CALL2 = {"type": "function", "id": "call67890", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5}}}


def u(t):
    return {"role": "user", "content": t}


def a(t, **k):
    return {"role": "assistant", "content": t, **k}


def s(t):
    return {"role": "system", "content": t}


def tool(t, **k):
    return {"role": "tool", "content": t, "name": "get_weather", "tool_call_id": "call12345", **k}


def conversations():
    out = [
        [u("Hi"), a("Hello!")], [s("Be brief."), u("Hi"), a("Hello!")], [u("Hi")], [s("Be brief."), u("Hi")],
        [u("1"), a("2"), u("3"), a("4")], [s("x"), u("1"), a("2"), u("3"), a("4"), u("5"), a("6")],
        [u(""), a("")], [s(""), u("a"), a("b")], [u("  padded  "), a("\n\nlines\n\n")], [u("a\r\nb\tc"), a("d")],
        [u("日本語 😀"), a("Ünïcödé — “quotes” ½")], [u("<|im_end|> </s> [INST]"), a("<|im_start|>assistant\n")],
        [a("first"), u("then")], [u("a"), u("b"), a("c")], [u("a"), a("b"), a("c")], [s("a"), s("b"), u("c"), a("d")],
        [u("q"), a("<think>\nhm\n</think>\n\nanswer")], [u("q"), a("answer", reasoning_content="hm\nhm")],
        [u("q"), a("<think>\n\n</think>\n\nanswer"), u("r"), a("<think>why</think>because")],
        [u("q"), a("a", reasoning_content="r1"), u("q2"), a("b", reasoning_content="r2")],
        [u("q"), a("a", thinking="t")], [], [s("only")], [u("a" * 2000), a("b" * 1000)],
        [u("{% if x %}{{ y }}"), a("{# no #}")], [u("<b>&amp;'\"</b>"), a("<i>")], [u("trailing \n"), a("trailing \n")],
        [u([{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]), a("ok")],
        [u([{"type": "image"}, {"type": "text", "text": "see"}]), a("ok")],
        [u("q"), a([{"type": "text", "text": "listed"}])], [{"role": "developer", "content": "d"}, u("q"), a("r")],
    ]
    out = [{"messages": m} for m in out]
    out += [
        {"messages": [u("q"), a("r")], "tools": [TOOL]}, {"messages": [s("sys"), u("q"), a("r")], "tools": [TOOL, TOOL2]},
        {"messages": [u("w?"), a("", tool_calls=[CALL]), tool("12 °C"), a("It is 12.")], "tools": [TOOL]},
        {"messages": [u("w?"), a(None, tool_calls=[CALL]), tool("12"), a("12."), u("thanks"), a("np")], "tools": [TOOL]},
        {"messages": [u("w?"), a("Let me see", tool_calls=[CALL, CALL2]), tool("1"), tool("2", name="add"), a("done")],
         "tools": [TOOL, TOOL2]},
        {"messages": [u("w?"), a("", tool_calls=[CALL]), tool('{"t": 1}')]},
        {"messages": [u("w?"), a("", reasoning_content="need it", tool_calls=[CALL]), tool("1"), a("x")], "tools": [TOOL]},
        {"messages": [u("q"), a("r")], "enable_thinking": False},
        {"messages": [u("q"), a("r"), u("s")], "enable_thinking": True},
    ]
    assert len(out) == 40, len(out)
    return out


def main():
    from transformers.utils.chat_template_utils import render_jinja_template, _normalize_chat_messages
    program = sys.argv[1]
    names = sorted(glob.glob(os.path.join(DATA, "templates", "*.jinja"))) + [
        os.path.join(DATA, "models", "smollm2-135m", "chat_template.jinja")]
    for n in ("qwen3", "llama31"):
        path = os.path.join(DATA, "tokenizers", n, "tokenizer_config.json")
        template = json.load(open(path)).get("chat_template")
        if template:
            out = os.path.join(tempfile.gettempdir(), f"template-{n}.jinja")
            open(out, "w").write(template)
            names.append(out)
    if len(sys.argv) > 2:
        names = [n for n in names if os.path.basename(n).split(".")[0] in sys.argv[2:]]
    chats = conversations()
    config = tempfile.mkdtemp()
    json.dump(SPECIAL, open(os.path.join(config, "tokenizer_config.json"), "w"))
    rendered = differing = raised = 0
    worst, unsupported = {}, {}
    for name in names:
        source = open(name).read()
        marked = re.search(r"\{%[-+]?\s*generation\b", source) is not None
        for prompt in (False, True):
            lines = "".join(json.dumps(c) + "\n" for c in chats)
            got = subprocess.run([program, "data", "render", "--model", config, "--template", name] +
                                 (["--prompt"] if prompt else []), input=lines.encode(), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            ours = [json.loads(x) for x in got.stdout.decode().splitlines()]
            if len(ours) != len(chats):
                differing += len(chats)
                unsupported[os.path.basename(name)] = got.stderr.decode().strip()[-300:]
                worst[os.path.basename(name)] = got.stderr.decode()[-300:]
                continue
            for c, o in zip(chats, ours):
                more = {k: v for k, v in c.items() if k not in ("messages", "tools")}
                rendered += 1
                try:
                    t, spans = render_jinja_template(
                        [_normalize_chat_messages(c["messages"])], tools=c.get("tools"), chat_template=source,
                        add_generation_prompt=prompt, return_assistant_tokens_mask=marked,
                        **SPECIAL, **more)
                    want = t[0]
                    wanted_spans = [[len(want[:b].encode()), len(want[:e].encode())]
                                    for b, e in (spans[0] if spans else []) if b < e]
                except Exception as e:
                    want = None
                    why = repr(e)
                if want is None:
                    raised += 1
                    if "error" not in o:
                        differing += 1
                        worst.setdefault(os.path.basename(name), f"ours renders where theirs raises {why}: {c}"[:400])
                elif o.get("text") != want or (marked and merged(o["spans"]) != merged(wanted_spans)):
                    differing += 1
                    worst.setdefault(os.path.basename(name), json.dumps(
                        {"conversation": c, "prompt": prompt, "ours": o, "theirs": want, "spans": spans})[:1500])
    for k, v in worst.items():
        print(k, v, file=sys.stderr)
    print(json.dumps({"unsupported": unsupported, "templates": len(names), "rendered": rendered, "raised": raised, "differing": differing,
                      "templates_differing": len(worst)}))


def merged(spans):
    out = []
    for b, e in spans:
        if out and out[-1][1] == b:
            out[-1][1] = e
        else:
            out.append([b, e])
    return out


if __name__ == "__main__":
    main()
