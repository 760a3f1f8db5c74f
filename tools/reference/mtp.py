"""Writes tests/models/data/mtp.json: what blocks that checkpoints bring to draft for them draft.

Usage: mtp.py [--check]   (from the repository's root; `./dev reference mtp` runs it)

With --check the file is compared with what would be written.

The targets are cases of tests/models/data/checkpoints.json, and `transformers` computes them. It does not read the blocks:
each is one of the target's own layers with other weights, joined and headed as section 2.2 of DeepSeek-AI 2024 says, and as
the names in files of each family tell. Weights are a function of their names (see weights.py). For each block: the logits of
some rows of a prompt, read with the target's rows, and of a few tokens that it then drafts greedily from its own.
"""
import copy, json, sys
import numpy as np
import torch
from checkpoints import load, number, scale_of
from weights import weights

FILE = "tests/models/data/mtp.json"
TARGETS = "tests/models/data/checkpoints.json"
ROWS, DRAFTED = (1, 30, 71), 4
QWEN = {"prefix": "mtp.", "block": "layers.0.", "join": "fc", "token": "pre_fc_norm_embedding", "hidden": "pre_fc_norm_hidden",
        "norm": "norm", "head": None, "normed": True, "config": {"mtp_num_hidden_layers": 1}}
GLM = {"prefix": "model.layers.3.", "block": "", "join": "eh_proj", "token": "enorm", "hidden": "hnorm", "norm": "shared_head.norm",
       "head": "shared_head.head", "normed": False, "config": {"num_nextn_predict_layers": 1}}
CASES = [("Qwen 3.5", QWEN), ("Qwen 3.5 that ends with a recurrent layer", QWEN), ("Qwen 3.5 MoE", QWEN), ("Qwen 3 Next", QWEN),
         ("GLM-4.5", GLM), ("GLM-4.5 Air, with groups", GLM)]


def block_tensors(target, names, hidden):
    """[name, shape, scale, offset] of the block's tensors in the file: those of the target's last layer with attention."""
    layers = sorted({t[0].split(".")[2] for t in target["tensors"] if ".self_attn." in t[0]}, key=int)
    own = f"model.layers.{layers[-1]}."
    shapes = [(names["block"] + name[len(own):], shape) for name, shape, *_ in target["tensors"] if name.startswith(own)]
    shapes += [(names["join"] + ".weight", [hidden, 2 * hidden])]
    shapes += [(names[norm] + ".weight", [hidden]) for norm in ("token", "hidden", "norm")]
    if names["head"]:
        shapes += [(names["head"] + ".weight", [target["config"]["vocab_size"], hidden])]
    return int(layers[-1]), own, [[names["prefix"] + name, shape, *scale_of(names["prefix"] + name, shape, target["config"])]
                                  for name, shape in shapes]


class Block:
    def __init__(self, model, target, names):
        hidden = target["config"]["hidden_size"]
        layer, own, self.tensors = block_tensors(target, names, hidden)
        place = names["prefix"] + names["block"]
        drawn = {own + name[len(place):]: name for name, *_ in self.tensors if name.startswith(place)}
        # The target once more, one of whose layers has the block's weights.
        self.layer = load(target["config"], target["tensors"], "f32", drawn).model.layers[layer]
        self.model, self.names, self.norm_of = model, names, copy.deepcopy(model.model.norm)
        self.held = {name: weights(name, *rest) for name, *rest in self.tensors}

    def norm(self, x, part):
        self.norm_of.weight.data = self.held[self.names["prefix"] + self.names[part] + ".weight"]
        return self.norm_of(x)

    def rows(self, tokens, features):
        """Of the tokens behind the first, with the features of the positions before them: logits, and their own features."""
        model, names = self.model, self.names
        x = torch.cat((self.norm(model.model.embed_tokens(torch.tensor([tokens])), "token"), self.norm(features[None], "hidden")), -1)
        x = x @ self.held[names["prefix"] + names["join"] + ".weight"].T
        count = x.shape[1]
        positions = torch.arange(count)[None]
        mask = torch.full((count, count), float("-inf")).triu(1)[None, None]
        turned = model.model.rotary_emb(x, positions)
        out = self.layer(x, position_embeddings=turned, attention_mask=mask, position_ids=positions)
        out = out[0] if isinstance(out, tuple) else out
        normed = self.norm(out, "norm")
        head = self.held[names["prefix"] + names["head"] + ".weight"] if names["head"] else model.lm_head.weight
        return (normed @ head.T)[0], (normed if names["normed"] else out)[0]


@torch.no_grad()
def case_of(target, names):
    model = load(target["config"], target["tensors"], "f32")
    block = Block(model, target, names)
    prompt = target["prompt"]
    features = model.model(torch.tensor([prompt]), use_cache=False).last_hidden_state[0]
    logits, own = block.rows(prompt[1:], features[:-1])
    rows = [{"position": p, "logits": [number(x) for x in logits[p - 1]]} for p in ROWS]
    tokens, read, drafted = list(prompt[1:]), features[:-1], []
    for _ in range(DRAFTED):
        tokens.append(int(logits[-1].argmax()))
        read = torch.cat((read, own[-1:]))
        logits, own = block.rows(tokens, read)
        drafted.append({"token": tokens[-1], "logits": [number(x) for x in logits[-1]]})
    return {"target": target["name"], "config": names["config"], "tensors": block.tensors, "rows": rows, "drafted": drafted}


def main():
    targets = {case["name"]: case for case in json.load(open(TARGETS))}
    out = [case_of(targets[name], names) for name, names in CASES]
    if "--check" in sys.argv:
        return check(out, json.load(open(FILE)))
    with open(FILE, "w") as f:
        f.write("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "]\n")


def check(fresh, kept):
    for a, b in zip(fresh, kept, strict=True):
        assert a["tensors"] == b["tensors"], a["target"]
        for x, y in zip(a["rows"] + a["drafted"], b["rows"] + b["drafted"], strict=True):
            assert np.allclose(x["logits"], y["logits"], rtol=1e-4, atol=1e-4), a["target"]
    print(f"{len(fresh)} blocks are as {FILE} says")


main()
