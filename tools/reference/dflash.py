"""Writes tests/models/data/dflash.json: what DFlash drafters say of the positions of a block, behind hidden states of a tiny target.

Usage: dflash.py [--check]   (from the repository's root; `./dev reference dflash` runs it)

With --check the file is compared with what would be written.

The target is computed by `transformers`; the drafters by the forward pass below, in double precision, written from section 4 of
Chen et al. 2026 and what files of both layouts hold. Weights are a function of their names (see weights.py). For each drafter:
the logits of the rows of some blocks, which stand behind the first tokens of a prompt.
"""
import json, math, sys
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from weights import weights

FILE = "tests/models/data/dflash.json"
PROMPT = 40
TARGET = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 48, "intermediate_size": 80,
          "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
          "rms_norm_eps": 1e-5, "vocab_size": 160, "hidden_act": "silu", "tie_word_embeddings": False}
SAID = 40
SHAPE = {"model_type": "qwen3", "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "vocab_size": 160,
         "hidden_act": "silu"}
ORIGINAL = {"architectures": ["DFlashDraftModel"], "hidden_size": 48, "num_target_layers": 6, "rope_theta": 5000.0,
            "tie_word_embeddings": True, **SHAPE}
# both_ways, window: of each layer. blocks: the position of a block's first row, and its rows.
DRAFTERS = [
    {"name": "original", "taps": (2, 4), "both_ways": (True, True), "windows": (0, 0), "mask": 159, "hidden": 48, "said": 0,
     "blocks": ((0, 4), (1, 6), (17, 6), (39, 3), (39, 6)), "config": {
        **ORIGINAL, "block_size": 6, "layer_types": ["full_attention"] * 2, "sliding_window": None, "use_sliding_window": False,
        "dflash_config": {"mask_token_id": 159, "target_layer_ids": [1, 3]}}},
    {"name": "with windows", "taps": (1, 3, 5), "both_ways": (False, True), "windows": (5, 0), "mask": 7, "hidden": 48, "said": 0,
     "blocks": ((3, 8), (39, 8)), "config": {
        **ORIGINAL, "block_size": 8, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5,
        "attention_bias": True, "dflash_config": {"mask_token_id": 7, "target_layer_ids": [0, 2, 4]}}},
    {"name": "speculators", "taps": (1, 3, 5), "both_ways": (True, True), "windows": (0, 0), "mask": 3, "hidden": 32, "said": SAID,
     "blocks": ((1, 4), (39, 4)), "config": {
        "architectures": ["DFlashSpeculator"], "speculators_model_type": "dflash", "draft_vocab_size": SAID, "block_size": 4,
        "mask_token_id": 3, "aux_hidden_state_layer_ids": [1, 3, 5], "target_hidden_size": 48, "sliding_window_non_causal": True,
        "transformer_layer_config": {"hidden_size": 32, "rope_theta": 10000.0, **SHAPE}}},
]


def entry_of(name, shape):
    if "norm" in name:
        return [name, shape, 0.4, 1.0]
    if name.endswith("bias"):
        return [name, shape, 0.5, 0.0]
    gain = 2.2 if "q_proj" in name or "k_proj" in name else 1.7
    return [name, shape, 1.0 if "embed" in name else round(gain / math.sqrt(shape[-1]), 4), 0.0]


def target_tensors():
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**TARGET))
    return [entry_of(name, list(t.shape)) for name, t in model.state_dict().items()]


def block_of(drafter):
    return drafter["config"].get("transformer_layer_config", drafter["config"])


def drafter_tensors(drafter):
    h, block = drafter["hidden"], block_of(drafter)
    d, f = block["head_dim"], block["intermediate_size"]
    shapes = {"fc.weight": [h, len(drafter["taps"]) * TARGET["hidden_size"]], "hidden_norm.weight": [h], "norm.weight": [h]}
    for i in range(block["num_hidden_layers"]):
        b = f"layers.{i}."
        products = {"q": [4 * d, h], "k": [2 * d, h], "v": [2 * d, h], "o": [h, 4 * d]}
        shapes.update({b + f"self_attn.{name}_proj.weight": shape for name, shape in products.items()})
        if block.get("attention_bias"):
            shapes.update({b + f"self_attn.{name}_proj.bias": shape[:1] for name, shape in products.items()})
        shapes.update({b + "input_layernorm.weight": [h], b + "post_attention_layernorm.weight": [h],
                       b + "self_attn.q_norm.weight": [d], b + "self_attn.k_norm.weight": [d],
                       b + "mlp.gate_proj.weight": [f, h], b + "mlp.up_proj.weight": [f, h], b + "mlp.down_proj.weight": [h, f]})
    if drafter["said"]:
        shapes.update({"embed_tokens.weight": [160, h], "lm_head.weight": [SAID, h]})
    return [entry_of(*item) for item in shapes.items()]


class Drafter:
    def __init__(self, drafter, tensors, target):
        self.w = {name: weights(name, *rest).double() for name, *rest in tensors}
        self.of, self.block = drafter, block_of(drafter)
        self.embedding = self.w.get("embed_tokens.weight", target.model.embed_tokens.weight.double())
        self.head = self.w.get("lm_head.weight", target.lm_head.weight.double())

    def norm(self, x, name):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.block["rms_norm_eps"]) * self.w[name + ".weight"]

    def product(self, x, name):
        return torch.nn.functional.linear(x, self.w[name + ".weight"], self.w.get(name + ".bias"))

    def heads(self, x, name):
        return self.product(x, name).unflatten(-1, (-1, self.block["head_dim"]))

    def turned(self, x, positions):
        half = self.block["head_dim"] // 2
        a = (positions[:, None] * self.block["rope_theta"] ** (-torch.arange(half).double() / half))[:, None]
        return torch.cat((x[..., :half] * a.cos() - x[..., half:] * a.sin(), x[..., half:] * a.cos() + x[..., :half] * a.sin()), -1)

    def logits(self, token, rows, states):
        """The logits of all rows but the first. states: those of the target, which end before the block."""
        first = len(states[0])
        context = self.norm(self.product(torch.cat([states[i] for i in self.of["taps"]], -1), "fc"), "hidden_norm")
        x = self.embedding[[token] + [self.of["mask"]] * (rows - 1)]
        keys_at = torch.arange(first + rows)
        at = keys_at[first:]
        for i, (both_ways, window) in enumerate(zip(self.of["both_ways"], self.of["windows"], strict=True)):
            b = f"layers.{i}."
            read = self.norm(x, b + "input_layernorm")
            seen = torch.cat((context, read))
            q = self.turned(self.norm(self.heads(read, b + "self_attn.q_proj"), b + "self_attn.q_norm"), at)
            k = self.turned(self.norm(self.heads(seen, b + "self_attn.k_proj"), b + "self_attn.k_norm"), keys_at)
            v = self.heads(seen, b + "self_attn.v_proj")
            scores = torch.einsum("qhd,khd->hqk", q, k.repeat_interleave(2, 1)) / math.sqrt(self.block["head_dim"])
            behind = at[:, None] - keys_at[None]
            hidden = torch.zeros(rows, first + rows, dtype=torch.bool) if both_ways else behind < 0
            if window:
                hidden = hidden | (behind >= window)
            p = scores.masked_fill(hidden, -math.inf).softmax(-1)
            x = x + self.product(torch.einsum("hqk,khd->qhd", p, v.repeat_interleave(2, 1)).flatten(1), b + "self_attn.o_proj")
            y = self.norm(x, b + "post_attention_layernorm")
            gate = torch.nn.functional.silu(self.product(y, b + "mlp.gate_proj"))
            x = x + self.product(gate * self.product(y, b + "mlp.up_proj"), b + "mlp.down_proj")
        return self.norm(x[1:], "norm") @ self.head.T


def numbers(row):
    return [float(f"{float(x):.7g}") for x in row]


@torch.no_grad()
def main():
    random = np.random.default_rng(13)
    tensors = target_tensors()
    target = LlamaForCausalLM(LlamaConfig(**TARGET, attn_implementation="eager")).eval()
    target.load_state_dict({name: weights(name, *rest) for name, *rest in tensors})
    prompt = [int(i) for i in random.integers(3, 160, PROMPT)]
    states = [s[0].double() for s in target(torch.tensor([prompt]), output_hidden_states=True).hidden_states]
    out = {"target": {"config": TARGET, "shards": 1, "tensors": tensors}, "prompt": prompt, "drafters": []}
    for case in DRAFTERS:
        own = drafter_tensors(case)
        drafter = Drafter(case, own, target)
        made = {"name": case["name"], "config": case["config"], "shards": 1, "tensors": own}
        if case["said"]:
            made["target_ids"] = sorted(int(i) for i in random.choice(160, case["said"], replace=False))
        made["blocks"] = [{"first": first, "logits": [numbers(row) for row in
                           drafter.logits(prompt[first], rows, [s[:first] for s in states])]} for first, rows in case["blocks"]]
        out["drafters"].append(made)
    if "--check" in sys.argv:
        return check(out, json.load(open(FILE)))
    with open(FILE, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


def check(fresh, kept):
    assert fresh["target"] == kept["target"] and fresh["prompt"] == kept["prompt"]
    for a, b in zip(fresh["drafters"], kept["drafters"], strict=True):
        assert a["config"] == b["config"] and a.get("target_ids") == b.get("target_ids")
        for x, y in zip(a["blocks"], b["blocks"], strict=True):
            assert np.allclose(x["logits"], y["logits"], rtol=1e-4, atol=1e-4), a["name"]
    print(f"{len(fresh['drafters'])} drafters are as {FILE} says")


main()
