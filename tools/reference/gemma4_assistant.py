"""Writes tests/models/data/gemma4_assistant.json: what Gemma 4's assistants draft for tiny targets.

Usage: gemma4_assistant.py [--check]   (from the repository's root; `./dev reference gemma4_assistant` runs it)

With --check the file is compared with what would be written.

The targets are cases of tests/models/data/checkpoints.json, and `transformers` computes both them and the assistants, called
as its SinglePositionMultiTokenCandidateGenerator calls them, but for one thing: it hands out keys up to the length of the
text, and so, behind a rejection, that of a rejected token; here as with a whole prompt only keys of positions before the
token count. Weights are a function of their names (see weights.py). For each assistant: the logits of some rows of a prompt,
read with the target's rows, and of a few tokens that it then drafts greedily from its own. Ids of clusters that a row does
not say have no logit (null).
"""
import json, sys
import numpy as np
import torch
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM
from checkpoints import load, number, scale_of
from weights import weights

FILE = "tests/models/data/gemma4_assistant.json"
TARGETS = "tests/models/data/checkpoints.json"
ROWS, DRAFTED, HIDDEN = (1, 30, 71), 4, 32
LAYERS = {"model_type": "gemma4_text", "hidden_size": HIDDEN, "intermediate_size": 40, "num_attention_heads": 4,
          "vocab_size": 160, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
          "head_dim": 16, "global_head_dim": 32, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0,
          "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True}
# The layers of the target whose keys they read are found by type: the last one that has keys of its own.
CASES = [
    ("Gemma 4 with embeddings of layers, and keys that these share",
     {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "num_key_value_heads": 1,
      "sliding_window": 12, "num_kv_shared_layers": 3}, {}),
    ("Gemma 4",
     {"num_hidden_layers": 4, "layer_types": ["full_attention", "sliding_attention"] * 2, "num_key_value_heads": 2,
      "num_global_key_value_heads": 1, "attention_k_eq_v": True, "sliding_window": 20, "final_logit_softcapping": 3.0},
     {"use_ordered_embeddings": True, "num_centroids": 5, "centroid_intermediate_top_k": 2}),
]


def config_of(layers, options):
    return {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "backbone_hidden_size": 48,
            "tie_word_embeddings": True, "text_config": {**LAYERS, **layers}, **options}


def assistant_of(config):
    """The assistant, and [name, shape, scale, offset] of its tensors in the file; the order of clusters' ids, if it has any."""
    model = Gemma4AssistantForCausalLM._from_config(Gemma4AssistantConfig(**config), attn_implementation="eager").eval()
    tied = config["text_config"] | {"architectures": config["architectures"]}
    tensors = [[name, list(t.shape), *scale_of(name, t.shape, tied)] for name, t in model.state_dict().items()
               if name not in ("lm_head.weight", "masked_embedding.token_ordering")]
    held = {name: weights(name, *rest) for name, *rest in tensors}
    order = None
    if config.get("use_ordered_embeddings"):
        order = [int(i) for i in np.random.default_rng(5).permutation(160)]
        held["masked_embedding.token_ordering"] = torch.tensor(order)
    missing = model.load_state_dict(held, strict=False)
    assert set(missing.missing_keys) <= {"lm_head.weight"} and not missing.unexpected_keys, missing
    model.tie_weights()
    return model, tensors, order


def numbers(row, clusters):
    """What is masked has the least logit of a row."""
    masked = row.min() if clusters else None
    return [None if x == masked else number(x) for x in row]


class Drafter:
    def __init__(self, target, assistant, prompt):
        self.embed, self.assistant = target.get_input_embeddings(), assistant
        out = target.model(torch.tensor([prompt]), use_cache=False, output_hidden_states=True, return_shared_kv_states=True)
        self.hidden, self.shared = out.last_hidden_state, out.shared_kv_states

    def row(self, token, position, hidden=None):
        """The token's row, with the target's keys before `position`: logits, and the row from which drafting goes on."""
        hidden = self.hidden[:, position - 1:position] if hidden is None else hidden
        shared = {kind: (k[:, :, :position], v[:, :, :position]) for kind, (k, v) in self.shared.items()}
        out = self.assistant(inputs_embeds=torch.cat((self.embed(torch.tensor([[token]])), hidden), -1),
                             position_ids=torch.tensor([[position]]), attention_mask=None, shared_kv_states=shared, use_cache=False)
        return out.logits[0, 0], out.last_hidden_state


@torch.no_grad()
def case_of(target, layers, options):
    config = config_of(layers, options)
    assistant, tensors, order = assistant_of(config)
    prompt = target["prompt"]
    drafter = Drafter(load(target["config"], target["tensors"], "f32"), assistant, prompt)
    rows = [{"position": p, "logits": numbers(drafter.row(prompt[p], p)[0], order)} for p in ROWS]
    last = len(prompt) - 1
    logits, hidden = drafter.row(prompt[last], last)
    drafted = []
    for _ in range(DRAFTED):
        token = int(logits.argmax())
        logits, hidden = drafter.row(token, last, hidden)
        drafted.append({"token": token, "logits": numbers(logits, order)})
    return {"target": target["name"], "config": config, "shards": 1, "tensors": tensors, "order": order, "rows": rows, "drafted": drafted}


def main():
    targets = {case["name"]: case for case in json.load(open(TARGETS))}
    out = [case_of(targets[name], *rest) for name, *rest in CASES]
    if "--check" in sys.argv:
        return check(out, json.load(open(FILE)))
    with open(FILE, "w") as f:
        f.write("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "]\n")


def check(fresh, kept):
    filled = lambda logits: [-1e9 if x is None else x for x in logits]
    for a, b in zip(fresh, kept, strict=True):
        assert a["tensors"] == b["tensors"] and a["order"] == b["order"], a["target"]
        for x, y in zip(a["rows"] + a["drafted"], b["rows"] + b["drafted"], strict=True):
            assert np.allclose(filled(x["logits"]), filled(y["logits"]), rtol=1e-4, atol=1e-4), a["target"]
    print(f"{len(fresh)} assistants are as {FILE} says")


main()
