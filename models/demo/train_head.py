"""Trains an EAGLE-3 head for the demo target and writes it in the layout of the method's authors.

Usage: train_head.py TARGET_DIR OUT_DIR SECONDS FOLDER...   (Python source below the folders; needs torch, numpy and tokenizers)

As in section 3 of Li et al. 2025: the head learns the target's distribution behind each token from three hidden states of the
position before, and then, for STEPS - 1 more tokens, from what it made itself of the position before ("training-time test").
A row of such a step sees the first step's rows up to its own, and its own rows of the steps between.
"""
import json, math, os, random, struct, sys, time
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from tokenizers import Tokenizer
from train import EPS, SHAPES, THETA, VOCAB, Llama, Norm, load

HIDDEN, HEADS, KV, FFN, SAID, STEPS, TAPS = 64, 4, 2, 192, 1024, 4, (1, 3, 5)
BATCH, CONTEXT, PEAK, REUSED, KEPT = 4, 256, 4e-3, 4, 128


def turned(x, position):
    d = x.shape[-1]
    a = position[:, None] * THETA ** (-torch.arange(0, d, 2) / d)[None]; a = torch.cat((a, a), -1)
    return x * a.cos() + torch.cat((-x[..., d // 2:], x[..., :d // 2]), -1) * a.sin()


class Head(nn.Module):
    def __init__(self):
        super().__init__(); lin = lambda i, o: nn.Linear(i, o, bias=False); h, d = HIDDEN, HIDDEN // HEADS
        self.embed_tokens = nn.Embedding(VOCAB, h); self.fc = lin(len(TAPS) * SHAPES["target"]["hidden"], h)
        self.q, self.k, self.v, self.o = lin(2 * h, h), lin(2 * h, KV * d), lin(2 * h, KV * d), lin(h, h)
        self.gate, self.up, self.down = lin(h, FFN), lin(h, FFN), lin(FFN, h)
        self.input_norm, self.hidden_norm, self.ffn_norm, self.norm = Norm(h), Norm(h), Norm(h), Norm(h)
        self.lm_head = lin(h, SAID)

    def step(self, tokens, feature, at, before):
        """One row for each of `tokens`, `at` further than the rows of step 0; before: keys and values of the steps so far."""
        b, t, h = feature.shape; d = h // HEADS; position = torch.arange(t) + at
        x = torch.cat((self.input_norm(self.embed_tokens(tokens)), self.hidden_norm(feature)), -1)
        heads = lambda y, n: y.view(b, t, n, d).transpose(1, 2)
        q = turned(heads(self.q(x), HEADS), position) / math.sqrt(d)
        k = turned(heads(self.k(x), KV), position).repeat_interleave(HEADS // KV, 1)
        v = heads(self.v(x), KV).repeat_interleave(HEADS // KV, 1)
        before = before + [(k, v)]
        scores = [q @ before[0][0].transpose(2, 3) + torch.full((t, t), -1e9).triu(1)]
        scores += [(q * key).sum(-1, keepdim=True) for key, _ in before[1:]]
        a = torch.softmax(torch.cat(scores, -1), -1)
        y = a[..., :t] @ before[0][1]
        for i, (_, value) in enumerate(before[1:]): y = y + a[..., t + i:t + i + 1] * value
        out = feature + self.o(y.transpose(1, 2).reshape(b, t, h)); y = self.ffn_norm(out)
        return out + self.down(F.silu(self.gate(y)) * self.up(y)), before

    def said(self, feature): return self.lm_head(self.norm(feature))


@torch.no_grad()
def states_of(target, ids):
    """Inputs of the tapped layers side by side, and the distribution behind each token."""
    t = ids.shape[1]; d = target.s["hidden"] // target.s["heads"]
    a = torch.arange(t)[:, None] * THETA ** (-torch.arange(0, d, 2) / d)[None]; a = torch.cat((a, a), -1)
    mask = torch.full((t, t), -1e9).triu(1); x = target.embed(ids); taps = {}
    for i, block in enumerate(target.blocks):
        taps[i] = x; x = block(x, a.cos(), a.sin(), mask)
    return torch.cat([taps[i] for i in TAPS], -1), F.linear(target.norm(x), target.embed.weight).float().softmax(-1)


def texts(folders):
    for top in folders:
        for folder, subs, files in os.walk(top):
            subs[:] = sorted(s for s in subs if s not in ("test", "tests", "__pycache__", "dist-packages"))
            for f in sorted(files):
                path = os.path.join(folder, f)
                if f.endswith(".py") and os.path.getsize(path) < 200_000: yield open(path, encoding="utf-8", errors="ignore").read()


def export(head, ids, out):
    os.makedirs(out, exist_ok=True); header, blob = {"__metadata__": {"format": "pt"}}, b""
    part = dict(q="midlayer.self_attn.q_proj", k="midlayer.self_attn.k_proj", v="midlayer.self_attn.v_proj", o="midlayer.self_attn.o_proj",
                gate="midlayer.mlp.gate_proj", up="midlayer.mlp.up_proj", down="midlayer.mlp.down_proj", input_norm="midlayer.input_layernorm",
                hidden_norm="midlayer.hidden_norm", ffn_norm="midlayer.post_attention_layernorm")
    def put(name, dtype, shape, raw):
        nonlocal blob
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(blob), len(blob) + len(raw)]}; blob += raw
    put("d2t", "I64", [SAID], (ids - np.arange(SAID)).astype("<i8").tobytes())
    for n, p in head.state_dict().items():
        first, weight = n.rsplit(".", 1)
        put(f"{part.get(first, first)}.{weight}", "BF16", p.shape, p.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
    put("t2d", "BOOL", [VOCAB], np.isin(np.arange(VOCAB), ids).astype(np.uint8).tobytes())
    h = json.dumps(header, separators=(",", ":")).encode(); h += b" " * (-len(h) % 8)
    with open(f"{out}/model.safetensors", "wb") as f: f.write(struct.pack("<Q", len(h)) + h + blob)
    config = {"architectures": ["LlamaForCausalLMEagle3"], "attention_bias": False, "draft_vocab_size": SAID,
              "eagle_aux_hidden_state_layer_ids": list(TAPS), "head_dim": HIDDEN // HEADS, "hidden_act": "silu", "hidden_size": HIDDEN,
              "intermediate_size": FFN, "max_position_embeddings": 1024, "mlp_bias": False, "model_type": "llama", "num_attention_heads": HEADS,
              "num_hidden_layers": 1, "num_key_value_heads": KV, "rms_norm_eps": EPS, "rope_theta": THETA,
              "target_hidden_size": SHAPES["target"]["hidden"], "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": VOCAB}
    json.dump(config, open(f"{out}/config.json", "w"), indent=2)


def main(where, out, seconds, folders):
    torch.manual_seed(7); rng = np.random.default_rng(7); tokenizer = Tokenizer.from_file(f"{where}/tokenizer.json")
    documents = list(texts(folders)); random.Random(7).shuffle(documents)
    tokens = np.array([i for text in documents for i in tokenizer.encode(text).ids + [0]])
    ids = np.sort(np.argsort(-np.bincount(tokens, minlength=VOCAB), kind="stable")[:SAID])
    print(f"{len(documents)} files, {len(tokens) / 1e6:.2f} M tokens, {np.isin(tokens, ids).mean():.3f} of them sayable", flush=True)
    target = Llama(SHAPES["target"]); head = Head(); said = torch.from_numpy(ids)
    with torch.no_grad(): load(target, where)
    for p in head.parameters():
        if p.dim() == 2: nn.init.normal_(p, std=0.5 / math.sqrt(p.shape[1]))
    print(sum(p.numel() for p in head.parameters()) / 1e6, "M parameters", flush=True)
    opt = torch.optim.AdamW(head.parameters(), betas=(0.9, 0.95), weight_decay=0.01)
    start, step, shown, made = time.time(), 0, [], []
    while (done := (time.time() - start) / seconds) < 1:
        for g in opt.param_groups: g["lr"] = PEAK * min(1, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        if step % REUSED == 0:  # the target's pass costs more than the head's, so each is used several times
            batch = torch.from_numpy(np.stack([tokens[i:i + CONTEXT + STEPS] for i in rng.integers(0, len(tokens) - CONTEXT - STEPS, BATCH)]))
            features, p = states_of(target, batch); made = [(batch, features, p[..., said])] + made[:KEPT]
        batch, features, p = made[0 if step % REUSED == 0 else rng.integers(len(made))]
        t = CONTEXT - 1; feature, before, loss, overlaps = head.fc(features[:, :t]), [], 0, []
        for k in range(STEPS):
            feature, before = head.step(batch[:, 1 + k:1 + k + t], feature, k, before)
            logq = head.said(feature).log_softmax(-1); here = p[:, 1 + k:1 + k + t]
            loss = loss - 0.8 ** k * (here * logq).sum(-1).mean()
            overlaps.append(torch.minimum(here, logq.detach().exp()).sum(-1).mean().item())
        opt.zero_grad(set_to_none=True); loss.backward(); nn.utils.clip_grad_norm_(head.parameters(), 1.0); opt.step()
        step += 1; shown.append(overlaps)
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} sum min(p, q) by step {np.round(np.mean(shown[-20:], 0), 3)} {step * BATCH * CONTEXT / (time.time() - start):.0f} tokens/s", flush=True)
            export(head, ids, out)
    export(head, ids, out)
    print(f"end: step {step}, {step * BATCH * CONTEXT / 1e6:.1f} M tokens", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])
