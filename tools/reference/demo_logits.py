"""Writes tests/models/data/demo_logits.json: logits of the demo pair from an independent forward pass in float64.

Usage: demo_logits.py   (from the repository's root; needs numpy and tokenizers)

Each case has a prompt's ids, its mean loss, and for some positions every 61st logit of the row, the row's root mean
square over all columns, its log-sum-exp and its argmax.
"""
import json, struct
import numpy as np
from tokenizers import Tokenizer

STEP = 61
TOKENS_MAX = {"target": 160, "draft": 1000}  # the tests' time is mostly the target's passes
PROMPTS = [
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    if n < 2:\n        return n\n    return ",
    "import os\nimport sys\n\nclass Reader(object):\n    def __init__(self, path, mode='r'):\n        self.path = path\n",
    "x",
    open("models/demo/bpe.py", encoding="utf-8").read(),
]


def tensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, entry in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            bits = np.frombuffer(raw[8 + n + a:8 + n + b], np.uint16).astype(np.uint32) << 16
            out[name] = bits.view(np.float32).astype(np.float64).reshape(entry["shape"])
    return out


def forward(w, c, ids):
    heads, groups, d, eps = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["rms_norm_eps"]
    t = len(ids)
    norm = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g
    angle = np.arange(t)[:, None] * c["rope_theta"] ** (-np.arange(0, d, 2) / d)[None]
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def turn(x):
        a, b = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    x = w["model.embed_tokens.weight"][ids]
    mask = np.triu(np.full((t, t), -np.inf), 1)
    for layer in range(c["num_hidden_layers"]):
        p = lambda name: w[f"model.layers.{layer}.{name}.weight"]
        y = norm(x, p("input_layernorm"))
        q = turn((y @ p("self_attn.q_proj").T).reshape(t, heads, d))
        k = turn((y @ p("self_attn.k_proj").T).reshape(t, groups, d)).repeat(heads // groups, 1)
        v = (y @ p("self_attn.v_proj").T).reshape(t, groups, d).repeat(heads // groups, 1)
        s = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d) + mask
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", s, v).reshape(t, -1) @ p("self_attn.o_proj").T
        y = norm(x, p("post_attention_layernorm"))
        gate = y @ p("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ p("mlp.up_proj").T)) @ p("mlp.down_proj").T
    return norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T


def main():
    tokenizer = Tokenizer.from_file("models/demo/target/tokenizer.json")
    out = {"column_step": STEP, "cases": []}
    for role in ("target", "draft"):
        w = tensors(f"models/demo/{role}/model.safetensors")
        c = json.load(open(f"models/demo/{role}/config.json"))
        for prompt in PROMPTS:
            ids = tokenizer.encode(prompt).ids[:TOKENS_MAX[role]]
            logits = forward(w, c, ids)
            total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
            loss = (total[:-1] - logits[np.arange(len(ids) - 1), ids[1:]]).mean() if len(ids) > 1 else 0
            rows = sorted({0, len(ids) // 3, 2 * len(ids) // 3, len(ids) - 1})
            out["cases"].append({"model": role, "ids": ids, "loss": round(float(loss), 6), "rows": [
                {"position": r, "rms": float(f"{np.sqrt((logits[r] ** 2).mean()):.8g}"), "log_sum_exp": float(f"{total[r]:.8g}"),
                 "argmax": int(logits[r].argmax()), "logits": [float(f"{v:.7g}") for v in logits[r, ::STEP]]} for r in rows]})
            print(role, len(ids), "tokens, loss", round(float(loss), 3))
    with open("tests/models/data/demo_logits.json", "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
