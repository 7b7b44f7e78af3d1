#!/usr/bin/env python3
"""Makes the Arrow files of this folder and, beside each that is read, NAME.jsonl with the rows as our reader writes them.

    python3 -m venv V && V/bin/pip install pyarrow==26.0.1 && V/bin/python tests/golden/arrow/make.py

The contents are made up here, so there is no other source or licence. `read-*` must be read, `refuse-*` must be refused.
"""
import math
import os
import struct

import pyarrow as pa

HERE = os.path.dirname(os.path.abspath(__file__))


def text(value):
    """A string as our writer escapes it."""
    return '"' + "".join("\\u%04x" % ord(c) if ord(c) < 32 else "\\" + c if c in '"\\' else c for c in value) + '"'


def as_json(value):
    if value is None:
        return "null"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return "{" + ",".join(text(k) + ":" + as_json(v) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    return repr(value).removesuffix(".0")


def write(name, table, rows_a_batch, file_format=False, **options):
    new = pa.ipc.new_file if file_format else pa.ipc.new_stream
    path = os.path.join(HERE, name + ".arrow")
    with new(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    if name.startswith("read-"):
        with open(os.path.join(HERE, name + ".jsonl"), "w") as f:
            f.writelines(as_json(row) + "\n" for row in table.to_pylist())


texts = ["Why?", "", None, "a\0b \\ \"q\"\n", "é 日本 🙂", "x" * 100]
write("read-text", pa.table({
    "question": pa.array(texts, pa.utf8()),
    "answer": pa.array([t and t[::-1] for t in texts], pa.large_utf8()),
    "tiny": pa.array([-128, 127, 0, None, 1, -1], pa.int8()),
    "wide": pa.array([2**64 - 1, 0, 1, None, 2**63, 7], pa.uint64()),
    "low": pa.array([-2**63, 2**63 - 1, 0, 1, -1, None], pa.int64()),
    "score": pa.array([0.5, -3.25, None, math.nan, math.inf, 1e300], pa.float64()),
    "small": pa.array([0.5, -3.25, None, 1.0, 0.0, 2.0], pa.float32()),
    "good": pa.array([True, False, None, True, True, False], pa.bool_()),
    "nothing": pa.nulls(6),
}), 4)
write("read-ids", pa.table({
    "input_ids": pa.array([[1, 2, 3], [4, 5], [], [6, 7, 8, 9]], pa.list_(pa.int32())),
    "labels": pa.array([[-100, -100, 3], [-100, 5], [], [-100, 7, 8, 9]], pa.large_list(pa.int64())),
    "attention_mask": pa.array([[1, 1, 1], [1, 1], [], None], pa.list_(pa.int8())),
}), 3)
write("read-weights", pa.table({
    "input_ids": pa.array([[1, 2, 3]], pa.list_(pa.int32())),
    "loss_weights": pa.array([[1.0, 0.5, 0.1]], pa.list_(pa.float32())),
}), 1)
write("read-weights-f64", pa.table({
    "input_ids": pa.array([[1, 2, 3], [4, 5]], pa.list_(pa.int32())),
    "loss_weights": pa.array([[0.0, 0.125, 3.0], [1.0, math.nan]], pa.list_(pa.float64())),
}), 1)
said = pa.list_(pa.struct([("role", pa.utf8()), ("content", pa.large_utf8())]))
write("read-chat", pa.table({
    "messages": pa.array([[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
                          [{"role": "user", "content": "again"}, {"role": "assistant", "content": None}]], said),
    "meta": pa.array([{"tags": [["a"], []]}, None], pa.struct([("tags", pa.list_(pa.list_(pa.utf8())))])),
}), 1, file_format=True)
write("read-empty", pa.table({"text": pa.array([], pa.utf8())}), 1)
# The same rows in every format (src/data/row_paths_test.c, which knows what becomes of each).
NAN, INF, F64 = math.nan, math.inf, pa.float64()


def talk(*said):
    return [{"role": role, "content": content, "weight": weight} for role, content, weight in said]


def answered(weight, more=None):
    return talk(("user", "1", more), ("assistant", "yes", weight))


weighed = pa.list_(pa.struct([("role", pa.utf8()), ("content", pa.utf8()), ("weight", F64)]))
write("read-same-talks", pa.table({
    "messages": pa.array([talk(("user", "1", None), ("assistant", "no", 0.5), ("user", "2", None), ("assistant", "yes", None)),
                          answered(None), answered(NAN), answered(0.5), answered(INF), answered(-INF), answered(0.75),
                          answered(1.0), answered(1e-6), answered(1e-300), answered(None), answered(None, 0.0)], weighed),
    "weight": pa.array([None, 0.25, None, 4.0, None, None, None, NAN, 1e-6, None, 0.0, 1.0], F64)}), 5)
write("read-same-pairs", pa.table({
    "question": ["1"] * 8, "answer": ["yes"] * 8,
    "weight": pa.array([None, 0.5, -2.0, 3.0, 1e17, 0.0, 1.0, INF], F64)}), 3)
write("read-same-alpaca", pa.table({
    "instruction": ["1"] * 4, "input": ["2", "", "2", ""], "output": ["yes"] * 4,
    "loss_weight": pa.array([2, None, -1, 0], pa.int64())}), 4)
write("read-same-texts", pa.table({
    "text": ["yes no", "yes", "no", "yes"], "weight": pa.array([0.1, NAN, None, 12345678.0], F64)}), 2)
write("read-same-ids", pa.table({
    "input_ids": pa.array([[7, 8, 9], [7, 8], [7, 8, 9], [7, 8], [7, 8], [7, 8]], pa.list_(pa.int32())),
    "labels": pa.array([[-100, 8, 9], None, [-100, 8, -100], None, None, None], pa.list_(pa.int32())),
    "loss_weights": pa.array([[0.0, 0.5, 0.1], None, [1.0, 1.0, 3.0], [1.0, NAN], [0.0, 1e-9], [0.0, -INF]], pa.list_(F64)),
    "weight": pa.array([2.0, 0.5, None, None, 0.5, 1.0], F64)}), 4)
# Bytes that are not UTF-8, which pyarrow writes but does not read as text; our reader hands them on as they are.
raw = [b"a\0b", b"\xc0\xaf", b"x\xffy", b"plain"]
offsets = [sum(map(len, raw[:i])) for i in range(5)]
column = pa.Array.from_buffers(pa.utf8(), 4, [None, pa.py_buffer(struct.pack("<5i", *offsets)), pa.py_buffer(b"".join(raw))])
write("broken", pa.table({"text": column}), 4)
os.rename(os.path.join(HERE, "broken.arrow"), os.path.join(HERE, "read-broken.arrow"))
with open(os.path.join(HERE, "read-broken.jsonl"), "wb") as f:
    f.writelines(b'{"text":"' + t.replace(b"\0", b"\\u0000") + b'"}\n' for t in raw)
write("refuse-dictionary", pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode()}), 3)
write("refuse-zstd", pa.table({"text": ["compressible " * 50]}), 3, compression="zstd")
write("refuse-lz4", pa.table({"text": ["compressible " * 50]}), 3, compression="lz4")
write("refuse-timestamp", pa.table({"when": pa.array([0], pa.timestamp("s"))}), 3)
write("refuse-map", pa.table({"m": pa.array([[("k", 1)]], pa.map_(pa.utf8(), pa.int32()))}), 3)
write("refuse-binary", pa.table({"b": pa.array([b"x"], pa.binary())}), 3)
write("refuse-view", pa.table({"v": pa.array(["x"], pa.string_view())}), 3)
write("refuse-half", pa.table({"h": pa.array([None], pa.float16())}), 3)
