"""Writes tests/models/data/eagle3.json: what EAGLE-3 heads draft from the hidden states of tiny targets.

Usage: eagle3.py [--check]   (from the repository's root; `./dev reference eagle3` runs it)

With --check the file is compared with what would be written.

The targets are computed by `transformers`; the heads by the forward pass below, in numpy and double precision, written from
section 3 of Li et al. 2025 and what files of both layouts hold. Weights are a function of their names (see weights.py).
For each head: the logits of some rows of a prompt, read with the target's hidden states, and of a few tokens that it then
drafts greedily from its own.
"""
import json, math, sys
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from weights import weights

FILE = "tests/models/data/eagle3.json"
PROMPT, ROWS, DRAFTED = 40, (1, 17, 39), 4
TARGET = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 48, "intermediate_size": 80,
          "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
          "rms_norm_eps": 1e-5, "vocab_size": 160, "hidden_act": "silu", "tie_word_embeddings": False}
SAID = 40
SHAPE = {"intermediate_size": 56, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "vocab_size": 160, "hidden_act": "silu"}
HEADS = [
    {"name": "original", "block": "midlayer.", "taps": (2, 3, 3), "embedding": True, "before": False, "hidden": 32, "config": {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 32, "target_hidden_size": 48,
        "draft_vocab_size": SAID, "rope_theta": 5000.0, **SHAPE}},
    {"name": "speculators", "block": "layers.0.", "taps": (1, 3, 5), "embedding": False, "before": True, "hidden": 48, "config": {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": SAID,
        "norm_before_residual": True, "eagle_aux_hidden_state_layer_ids": [1, 3, 5], "transformer_layer_config": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 48, "head_dim": 16, "rope_theta": 10000.0, **SHAPE}}},
    {"name": "norm of all", "block": "midlayer.", "taps": (2, 3, 3), "embedding": True, "before": False, "hidden": 32,
     "norms": ["input_norm"], "normed": True, "config": {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 32, "target_hidden_size": 48,
        "draft_vocab_size": SAID, "rope_theta": 5000.0, "eagle_config": {"norm_before_fc": True}, "norm_output": True, **SHAPE}},
    {"name": "norms of each", "block": "midlayer.", "taps": (2, 3, 3), "embedding": True, "before": False, "hidden": 32,
     "norms": ["fc_norm.0", "fc_norm.1", "fc_norm.2"], "config": {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 32, "target_hidden_size": 48,
        "draft_vocab_size": SAID, "rope_theta": 5000.0, "fc_norm": True, **SHAPE}},
]


def entry_of(name, shape):
    if "norm" in name:
        return [name, shape, 0.4, 1.0]
    gain = 2.2 if "q_proj" in name or "k_proj" in name else 1.7
    return [name, shape, 1.0 if "embed" in name else round(gain / math.sqrt(shape[-1]), 4), 0.0]


def target_tensors():
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**TARGET))
    return [entry_of(name, list(t.shape)) for name, t in model.state_dict().items()]


def block_of(head):
    return head["config"].get("transformer_layer_config", head["config"])


def head_tensors(head):
    h, b, block = head["hidden"], head["block"], block_of(head)
    d, f = block.get("head_dim", h // 4), block["intermediate_size"]
    shapes = {"fc.weight": [h, 3 * TARGET["hidden_size"]], "norm.weight": [h], "lm_head.weight": [SAID, h],
              b + "input_layernorm.weight": [h], b + "hidden_norm.weight": [h], b + "post_attention_layernorm.weight": [h],
              b + "self_attn.q_proj.weight": [4 * d, 2 * h], b + "self_attn.k_proj.weight": [2 * d, 2 * h],
              b + "self_attn.v_proj.weight": [2 * d, 2 * h], b + "self_attn.o_proj.weight": [h, 4 * d],
              b + "mlp.gate_proj.weight": [f, h], b + "mlp.up_proj.weight": [f, h], b + "mlp.down_proj.weight": [h, f]}
    if head["embedding"]:
        shapes["embed_tokens.weight"] = [160, h]
    norms = head.get("norms", [])
    shapes |= {name + ".weight": [3 * TARGET["hidden_size"] // len(norms)] for name in norms}
    return [entry_of(*item) for item in shapes.items()]


class Head:
    """Rows one after the other, as they come: keys and values are kept."""

    def __init__(self, head, tensors, embedding):
        w = {name.replace(head["block"], ""): weights(name, *rest).double().numpy() for name, *rest in tensors}
        block = block_of(head)
        self.w, self.before, self.theta = w, head["before"], block["rope_theta"]
        self.norms, self.normed = head.get("norms", []), head.get("normed", False)
        self.d = block.get("head_dim", head["hidden"] // 4)
        self.embedding = w.get("embed_tokens.weight", embedding)
        self.keys, self.values = [], []

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean() + 1e-5) * self.w[name + ".weight"]

    def combined(self, states):
        """The feature of a position, of the target's hidden states there."""
        read = np.concatenate(states)
        if self.norms:
            read = np.concatenate([self.norm(x, name) for x, name in zip(np.split(read, len(self.norms)), self.norms)])
        return self.w["fc.weight"] @ read

    def turned(self, x, position):
        half = self.d // 2
        a = position * self.theta ** (-np.arange(half) * 2 / self.d)
        return np.concatenate((x[:, :half] * np.cos(a) - x[:, half:] * np.sin(a), x[:, half:] * np.cos(a) + x[:, :half] * np.sin(a)), 1)

    def row(self, token, feature):
        """feature: of the position before. The logits behind the token, and its own position's feature."""
        w, position = self.w, len(self.keys)
        read = self.norm(feature, "hidden_norm")
        residual = read if self.before else feature
        x = np.concatenate((self.norm(self.embedding[token], "input_layernorm"), read))
        heads = lambda name: (w[f"self_attn.{name}_proj.weight"] @ x).reshape(-1, self.d)
        self.keys.append(self.turned(heads("k"), position))
        self.values.append(heads("v"))
        queries, out = self.turned(heads("q"), position), []
        for i, q in enumerate(queries):
            scores = np.array([k[i // 2] @ q for k in self.keys]) / math.sqrt(self.d)
            p = np.exp(scores - scores.max())
            out.append(sum(a * v[i // 2] for a, v in zip(p / p.sum(), self.values)))
        residual = residual + w["self_attn.o_proj.weight"] @ np.concatenate(out)
        y = self.norm(residual, "post_attention_layernorm")
        gate = w["mlp.gate_proj.weight"] @ y
        residual = residual + w["mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (w["mlp.up_proj.weight"] @ y))
        last = self.norm(residual, "norm")
        return w["lm_head.weight"] @ last, last if self.normed else residual


def numbers(row):
    return [float(f"{float(x):.7g}") for x in row]


@torch.no_grad()
def main():
    random = np.random.default_rng(11)
    tensors = target_tensors()
    target = LlamaForCausalLM(LlamaConfig(**TARGET, attn_implementation="eager")).eval()
    target.load_state_dict({name: weights(name, *rest) for name, *rest in tensors})
    prompt = [int(i) for i in random.integers(3, 160, PROMPT)]
    states = [s[0].double().numpy() for s in target(torch.tensor([prompt]), output_hidden_states=True).hidden_states]
    out = {"target": {"config": TARGET, "shards": 1, "tensors": tensors}, "prompt": prompt, "heads": []}
    for case in HEADS:
        own = head_tensors(case)
        ids = sorted(int(i) for i in random.choice(160, SAID, replace=False))
        head = Head(case, own, target.model.embed_tokens.weight.double().numpy())
        rows = []
        for p in range(1, PROMPT):
            feature = head.combined([states[i][p - 1] for i in case["taps"]])
            logits, feature = head.row(prompt[p], feature)
            if p in ROWS:
                rows.append({"position": p, "logits": numbers(logits)})
        drafted = []
        for _ in range(DRAFTED):
            token = ids[int(np.argmax(logits))]
            logits, feature = head.row(token, feature)
            drafted.append({"token": token, "logits": numbers(logits)})
        out["heads"].append({"name": case["name"], "config": case["config"], "shards": 1, "tensors": own, "target_ids": ids,
                             "rows": rows, "drafted": drafted})
    if "--check" in sys.argv:
        return check(out, json.load(open(FILE)))
    with open(FILE, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


def check(fresh, kept):
    for a, b in zip(fresh["heads"], kept["heads"], strict=True):
        assert a["config"] == b["config"] and a["target_ids"] == b["target_ids"]
        for x, y in zip(a["rows"] + a["drafted"], b["rows"] + b["drafted"], strict=True):
            assert np.allclose(x["logits"], y["logits"], rtol=1e-4, atol=1e-4), a["name"]
    print(f"{len(fresh['heads'])} heads are as {FILE} says")


main()
