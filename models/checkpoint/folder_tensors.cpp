#include "models/checkpoint/folder_tensors.hpp"

#include <fmt/format.h>

namespace paceline::models {
namespace {

ModelPart part_of(std::string_view name) {
  const auto has = [name](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  };
  if (has("embed_tokens"))
    return ModelPart::embedding;
  if (has("lm_head"))
    return ModelPart::head;
  if (has("norm"))
    return ModelPart::norms;
  if (has("self_attn"))
    return ModelPart::attention;
  return has("mlp") ? ModelPart::feed_forward : ModelPart::other;
}

} // namespace

/// Stored copies of the rotary frequencies change nothing: they are computed from config.json.
FolderTensors::FolderTensors(TensorFiles files, const BlockTensors& names)
    : files_(std::move(files)), names_(names) {
  for (const TensorFiles::Stored& tensor : files_.tensors())
    if (tensor.name.ends_with(".self_attn.rotary_emb.inv_freq"))
      files_.ignore(tensor.name);
}

bool FolderTensors::has(TensorRole role) const {
  switch (role) {
  case TensorRole::query:
  case TensorRole::key:
  case TensorRole::value:
  case TensorRole::gate:
  case TensorRole::up: return !names_.fused;
  case TensorRole::query_key_value:
  case TensorRole::gate_up: return names_.fused;
  case TensorRole::attention_norm:
  case TensorRole::attention_post_norm:
  case TensorRole::ffn_norm:
  case TensorRole::ffn_post_norm: return *name_in_block(role) != '\0';
  default: return true;
  }
}

std::string FolderTensors::name_of(TensorKey key) const {
  switch (key.role) {
  case TensorRole::embedding: return "model.embed_tokens";
  case TensorRole::head: return "lm_head";
  case TensorRole::final_norm: return "model.norm";
  default: return fmt::format("model.layers.{}.{}", key.block, name_in_block(key.role));
  }
}

const char* FolderTensors::name_in_block(TensorRole role) const {
  switch (role) {
  case TensorRole::attention_norm: return names_.attention_norm;
  case TensorRole::query: return "self_attn.q_proj";
  case TensorRole::key: return "self_attn.k_proj";
  case TensorRole::value: return "self_attn.v_proj";
  case TensorRole::query_key_value: return "self_attn.qkv_proj";
  case TensorRole::query_norm: return "self_attn.q_norm";
  case TensorRole::key_norm: return "self_attn.k_norm";
  case TensorRole::attention_out: return "self_attn.o_proj";
  case TensorRole::attention_post_norm: return names_.attention_post_norm;
  case TensorRole::ffn_norm: return names_.ffn_norm;
  case TensorRole::gate: return "mlp.gate_proj";
  case TensorRole::up: return "mlp.up_proj";
  case TensorRole::gate_up: return "mlp.gate_up_proj";
  case TensorRole::down: return "mlp.down_proj";
  case TensorRole::ffn_post_norm: return names_.ffn_post_norm;
  case TensorRole::embedding:
  case TensorRole::head:
  case TensorRole::final_norm: break;
  }
  return "";
}

std::vector<TensorSource::Stored> FolderTensors::tensors() const {
  std::vector<Stored> out;
  for (const TensorFiles::Stored& tensor : files_.tensors())
    out.push_back({part_of(tensor.name), tensor.dtype, tensor.bytes});
  return out;
}

} // namespace paceline::models
