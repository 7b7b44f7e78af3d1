"""What the spine's scripts share: datasets from goldens, a small model made on the fly, plans to edit, sums to check."""
import json
import math
import os
import random
import struct

from lib import (data, execute, lazytrain, read_jsonl, safetensors, tensor_floats, train, workdir)

FAMILIES = ("qwen3", "qwen2.5", "llama3", "mistral")


def write_rows(name, ids, labels=None):
    """A pre-tokenised dataset in workdir(); rows of ids, and of labels where given."""
    path = os.path.join(workdir(fresh=False), name)
    with open(path, "w") as f:
        for i, row in enumerate(ids):
            f.write(json.dumps({"input_ids": row, **({"labels": labels[i]} if labels else {})}) + "\n")
    return path


def family(name):
    """(directory, golden.json) of one of the small models."""
    directory = data("golden", name)
    with open(os.path.join(directory, "golden.json")) as f:
        return directory, json.load(f)


def smollm2_golden():
    with open(data("golden", "smollm2.json")) as f:
        return json.load(f)


def smollm2_rows(split):
    return [r for r in read_jsonl(data("golden", "smollm2_rows.jsonl")) if r["split"] == split]


def long_rows(name, count, length=512):
    """Rows of exactly length tokens, cut from SmolLM2's training rows laid end to end; every token bears loss."""
    ids = [i for r in smollm2_rows("train") for i in r["input_ids"]]
    while len(ids) < count * length:
        ids += ids
    return write_rows(name, [ids[k * length:(k + 1) * length] for k in range(count)])


def figures(values):
    """(l2, sum) in float64."""
    return math.sqrt(math.fsum(v * v for v in values)), math.fsum(values)


# ---- a model of any size, with random weights ----

TINY = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=64, intermediate_size=160,
            num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=259,
            max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
            hidden_act="silu", torch_dtype="float32", bos_token_id=1, eos_token_id=2)
# No tensor is a multiple of 512 bytes.
ODD = dict(TINY, hidden_size=60, intermediate_size=161, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
           vocab_size=263)


def llama_shapes(c):
    """{name: shape} of a Llama's tensors, in model order."""
    h, f, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    d = c.get("head_dim") or h // c["num_attention_heads"]
    q, k = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    shapes = {"model.embed_tokens.weight": [v, h]}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        shapes.update({p + "input_layernorm.weight": [h], p + "self_attn.q_proj.weight": [q, h],
                       p + "self_attn.k_proj.weight": [k, h], p + "self_attn.v_proj.weight": [k, h],
                       p + "self_attn.o_proj.weight": [h, q], p + "post_attention_layernorm.weight": [h],
                       p + "mlp.gate_proj.weight": [f, h], p + "mlp.up_proj.weight": [f, h],
                       p + "mlp.down_proj.weight": [h, f]})
    shapes["model.norm.weight"] = [h]
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [v, h]
    return shapes


def random_values(name, shape, seed):
    """Norms are ones; the rest is uniform with the variance of 0.05 squared. Raw F32."""
    count = math.prod(shape)
    if len(shape) == 1:
        return struct.pack("<f", 1.0) * count
    # 16 bits a number are random enough; the table makes large models quick to write.
    table = [struct.pack("<f", (i - 127.5) / 127.5 * 0.0866) for i in range(256)]
    return b"".join(map(table.__getitem__, random.Random(f"{seed} {name}").randbytes(count)))


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            f.write(raw)


def make_model(name, config=None, seed=1, change=None):
    """A Llama directory in workdir(); change(tensors) may alter what is written. Returns its path."""
    config = config or TINY
    path = os.path.join(workdir(fresh=False), name)
    os.makedirs(path, exist_ok=True)
    tensors = {n: ("F32", s, random_values(n, s, seed)) for n, s in llama_shapes(config).items()}
    if change:
        change(tensors)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    write_safetensors(os.path.join(path, "model.safetensors"), tensors)
    return path


def random_rows(name, lengths, vocabulary, seed=1):
    r = random.Random(seed)
    return write_rows(name, [[r.randrange(vocabulary) for _ in range(n)] for n in lengths])


# ---- plans ----

def plan_of(config, name="plan-source", **sections):
    """The plan.json that a run of config would follow (max_steps 0 writes it), as an object."""
    run = train({**config, "max_steps": 0, "save_final": False, "eval_dataset": None}, "--quiet", name=name, **sections)
    with open(os.path.join(run.out_dir, "plan.json")) as f:
        return json.load(f)


def write_plan(name, plan):
    path = os.path.join(workdir(fresh=False), name)
    with open(path, "w") as f:
        json.dump(plan, f)
    return path


def needs(result):
    """The N of "device_cap: needs at least N bytes", or None."""
    words = result.err.split("device_cap: needs at least ")
    return int(words[1].split()[0]) if len(words) > 1 else None


def random_internals(plan, r, stay=1.0, leave=1.0, again=1.0):
    """Each layer's internals on the device, on the host, or made again, with these weights; moved under 1 to 4 stages."""
    tiers = [r.choices(["gpu", "cpu", "recompute"], [stay, leave, again])[0] for _ in range(plan["model"]["layers"])]
    plan["internals"] = [i for i, t in enumerate(tiers) if t == "gpu"]
    plan["internals_cpu"] = [i for i, t in enumerate(tiers) if t == "cpu"]
    plan["internals_stages"] = r.randint(1, 4)
