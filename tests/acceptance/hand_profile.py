"""Profiles of machines that are not here, from a few rates: every entry that pricing a model's step looks for.

    machine = Machine("a card", flops=400e12, link=12e9, ...)
    write_profile("profile.json", machine, json.load(open("config.json")), rows=72, tokens=1024)

Names are lazytrain/price.h's. A matrix product takes its operations over `flops`, anything else its bytes over
`device_bytes_per_s`; whole layers (layers whose operators do not exist yet) take the seconds that `layers` gives, at
`layer_tokens` tokens, or are left to the rate of matrix products.
"""
import json


class Machine:
    def __init__(self, name, device="by hand", flops=400e12, device_bytes_per_s=2e12, up=12e9, down=12e9, host=100e9,
                 latency=10e-6, device_bytes=0, host_bytes=0, layers=None, layer_tokens=0, rates=None):
        self.name, self.device, self.flops, self.device_bytes_per_s = name, device, flops, device_bytes_per_s
        self.up, self.down, self.host, self.latency = up, down, host, latency
        self.device_bytes, self.host_bytes = device_bytes, host_bytes
        self.layers, self.layer_tokens, self.rates = layers or {}, layer_tokens, rates or {}


def powers(most):
    sizes, at = [], 1
    while at < most:
        sizes.append(at)
        at *= 2
    return sizes + [most]


def text_config(config):
    return config.get("text_config", config)


def dims(config):
    c = text_config(config)
    heads = c["num_attention_heads"]
    d = c.get("head_dim") or c["hidden_size"] // heads
    partial = (c.get("rope_parameters") or {}).get("partial_rotary_factor") or c.get("partial_rotary_factor") or 1
    return dict(R=int(d * partial), H=c["hidden_size"], F=c["intermediate_size"], V=c["vocab_size"], Q=heads,
                K=c.get("num_key_value_heads", heads), D=d, window=c.get("sliding_window") or 0)


def kernel_entries(m, config, sizes, doc, dtype, grad):
    """(name, size, seconds) of every operator of our own layers and of the head."""
    s = dims(config)
    H, F, V, Q, K, D, R = (s[k] for k in "HFVQKDR")
    L, element, to = (Q + 2 * K) * D, 2 if dtype == "bf16" else 4, "" if grad == dtype else ".to_" + grad

    def flat(name, width, passes):
        for n in sizes:
            yield name, n, m.latency + n * width * element * passes / m.device_bytes_per_s

    def product(name, k, n_out):
        for n in sizes:
            yield name, n, m.latency + 2 * n * k * n_out / m.flops

    for k, n in ((H, L), (Q * D, H), (H, 2 * F), (F, H)):
        yield from product(f"linear_fwd.{dtype}.{k}x{n}", k, n)
        yield from product(f"linear_bwd_x.{dtype}.{k}x{n}", k, n)
        yield from product(f"linear_bwd_w.{dtype}.{k}x{n}{to}", k, n)
    yield from flat(f"rope_table.{dtype}.{R}", R, 1)
    yield from flat(f"rmsnorm_fwd.{dtype}.{H}", H, 2)
    yield from flat(f"rmsnorm_bwd.{dtype}.{H}{to}", H, 4)
    for back in (f"head_norm_fwd.{dtype}.{Q}x{K}x{D}x{L}", f"head_norm_bwd.{dtype}.{Q}x{K}x{D}x{L}{to}"):
        yield from flat(back, (Q + K) * D, 3)
    for columns in (L, (Q + K) * D):
        yield from flat(f"rope.{dtype}.{Q + K}x{D}x{R}x{columns}", (Q + K) * D, 2)
    yield from flat(f"swiglu_fwd.{dtype}.{F}", F, 3)
    yield from flat(f"swiglu_bwd.{dtype}.{F}", F, 5)
    for window in {"", f".window{s['window']}" if s["window"] else ""}:
        for n in sizes:
            pairs = n * (doc + 1) / 2
            yield f"attention_fwd.{dtype}.{Q}x{K}x{D}.doc{doc}{window}", n, m.latency + 4 * Q * D * pairs / m.flops
            yield f"attention_bwd.{dtype}.{Q}x{K}x{D}.doc{doc}{window}", n, m.latency + 10 * Q * D * pairs / m.flops
    for n in powers(max(sizes)):
        for tail in ("", ".first", ".forward"):
            yield f"loss_chunk.{dtype}.{H}x{V}{tail}", n, m.latency + 6 * n * H * V / m.flops
    for n in powers(V * H):
        yield f"cast.{grad}", n, m.latency + n * 6 / m.device_bytes_per_s


def layer_entries(m, sizes, dtype):
    for kind, (forward, backward) in m.layers.items():
        for n in sizes:
            share = n / m.layer_tokens
            yield f"layer_fwd.{dtype}.{kind}", n, forward * share
            yield f"layer_bwd.{dtype}.{kind}", n, backward * share


def rate_entries(m, dtype, grad):
    small, large = 1 << 20, 1 << 28
    for name, rate in (("h2d", m.up), ("d2h", m.down)):
        for size in (small, large):
            yield name, size, size / (m.latency + size / rate)
    for name in ("gather", "zero", f"scatter.{dtype}.{grad}", f"add.{grad}", f"norm.{grad}", f"adamw.{dtype}.{grad}"):
        yield name, large, m.rates.get(name.split(".")[0], m.host)


def profile(machine, config, rows, tokens, dtype="bf16", grad=None, parts=8):
    """A profile for micro-batches of rows x tokens, and of down to 1 / parts of them."""
    grad = grad or dtype
    sizes = sorted({max(rows * tokens // p, 1) for p in (1, 2, 4, 8) if p <= parts})
    times, rates = {}, {}
    for g in {grad, "f32"}:
        for name, size, seconds in kernel_entries(machine, config, sizes, tokens, dtype, g):
            times[name, size] = seconds
        for name, size, rate in rate_entries(machine, dtype, g):
            rates[name, size] = rate
    for name, size, seconds in layer_entries(machine, sizes, dtype):
        times[name, size] = seconds

    def row(key, value, size_key, value_key):
        return {"name": key[0], size_key: key[1], value_key: value, "min": value, "max": value, "count": 1}

    return {"format": "lazytrain-profile", "version": 1, "machine": machine.name, "device": machine.device,
            "capacity": {"device_bytes": machine.device_bytes, "host_bytes": machine.host_bytes, "nvme_bytes": 0},
            "rates": [row(k, rates[k], "block_bytes", "bytes_per_s") for k in sorted(rates)],
            "times": [row(k, times[k], "tokens", "seconds") for k in sorted(times)]}


def write_profile(path, *args, **more):
    with open(path, "w") as f:
        json.dump(profile(*args, **more), f, indent=1)
        f.write("\n")
