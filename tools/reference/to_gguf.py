#!/usr/bin/env python3
"""Writes a checkpoint of the demo pair's kind (Llama, bf16, a byte-level BPE tokenizer) as GGUF, for tools/peers.

    to_gguf.py FOLDER FILE
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy

# What llama.cpp calls each of a layer's tensors.
OF_LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
            "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
            "mlp.down_proj": "ffn_down"}
OF_MODEL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tensors(path):
    """Name, shape and bits of each tensor of a safetensors file of bf16."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"to_gguf: {name} is {entry['dtype']}, not BF16")
        begin, end = entry["data_offsets"]
        yield name, numpy.frombuffer(data[8 + size + begin:8 + size + end], numpy.uint16).reshape(entry["shape"])


def name_of(name):
    stem = name.removesuffix(".weight")
    if stem in OF_MODEL:
        return f"{OF_MODEL[stem]}.weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{OF_LAYER[part]}.weight"


def interleaved(rows, heads):
    """llama.cpp rotates neighbours, where the checkpoint rotates halves of a head."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def add_tokenizer(writer, folder, config):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    texts = {number: text for text, number in tokenizer["model"]["vocab"].items()}
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe") # The same expression splits words.
    writer.add_token_list([special.get(i, texts.get(i, f"<unused {i}>")) for i in range(config["vocab_size"])])
    writer.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(config["vocab_size"])])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


def add_model(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def main():
    folder, to = pathlib.Path(sys.argv[1]), sys.argv[2]
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(to, "llama")
    add_model(writer, config)
    add_tokenizer(writer, folder, config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for path in sorted(folder.glob("*.safetensors")):
        for name, bits in tensors(path):
            for part, count in heads.items():
                if f".{part}." in name:
                    bits = interleaved(bits, count)
            if bits.ndim == 1:
                writer.add_tensor(name_of(name), (bits.astype(numpy.uint32) << 16).view(numpy.float32))
            else:
                writer.add_tensor(name_of(name), numpy.ascontiguousarray(bits).view(numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
