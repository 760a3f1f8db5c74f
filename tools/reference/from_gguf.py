#!/usr/bin/env python3
"""Writes a Llama's GGUF file as a folder in bf16, tokenizer and template included, for servers that read no GGUF.

    from_gguf.py FILE FOLDER
"""
import pathlib
import sys

import gguf
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig

from to_gguf import OF_LAYER, OF_MODEL

NAMES = {of: name for name, of in (OF_LAYER | OF_MODEL).items()}


def name_of(tensor):
    stem = tensor.removesuffix(".weight")
    if stem in NAMES:
        return f"{NAMES[stem]}.weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def halves(weight, heads):
    """Rows of queries or keys in the order of a folder: GGUF has the two halves that a rotation turns in turn."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def main():
    file, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    reader = gguf.GGUFReader(file)
    said = {key.removeprefix("llama."): field.contents() for key, field in reader.fields.items() if key.startswith("llama.")}
    heads = {"attn_q": said["attention.head_count"], "attn_k": said["attention.head_count_kv"]}
    weights = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = halves(values, heads[part])
        weights[name_of(tensor.name)] = torch.tensor(values).to(torch.bfloat16)
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    embedding = weights["model.embed_tokens.weight"]
    LlamaConfig(architectures=["LlamaForCausalLM"], dtype="bfloat16", vocab_size=embedding.shape[0], hidden_size=said["embedding_length"],
                intermediate_size=said["feed_forward_length"], num_hidden_layers=said["block_count"], num_attention_heads=heads["attn_q"],
                num_key_value_heads=heads["attn_k"], max_position_embeddings=said["context_length"],
                rms_norm_eps=said["attention.layer_norm_rms_epsilon"], rope_theta=said["rope.freq_base"],
                tie_word_embeddings="lm_head.weight" not in weights, bos_token_id=reader.fields["tokenizer.ggml.bos_token_id"].contents(),
                eos_token_id=reader.fields["tokenizer.ggml.eos_token_id"].contents()).save_pretrained(folder)


if __name__ == "__main__":
    main()
