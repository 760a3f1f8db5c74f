#include "tests/models/gguf_checkpoint.hpp"

#include "models/checkpoint/widen.hpp"
#include "tests/models/weights_file.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace paceline::models::test {
namespace json = boost::json;
namespace {

std::string read(const std::string& path) {
  return testing::read_file(path);
}

/// "model.layers.3.self_attn.q_proj.weight" is "blk.3.attn_q.weight".
std::string name_in_gguf(std::string name, bool post_norms) {
  const auto replace = [&](std::string_view from, std::string_view to) {
    if (const auto at = name.find(from); at != name.npos)
      name.replace(at, from.size(), to);
  };
  const std::pair<const char*, const char*> parts[] = {
      {"model.layers.", "blk."},
      {"model.embed_tokens_per_layer", "per_layer_token_embd"},
      {"model.per_layer_model_projection", "per_layer_model_proj"},
      {"model.per_layer_projection_norm", "per_layer_proj_norm"},
      {"per_layer_input_gate", "inp_gate"},
      {"per_layer_projection", "proj"},
      {"post_per_layer_input_norm", "post_norm"},
      {"layer_scalar", "layer_output_scale.weight"},
      {"router.proj", "ffn_gate_inp"},
      {"router.scale", "ffn_gate_inp.scale"},
      {"router.per_expert_scale", "ffn_down_exps.scale"},
      {".experts.gate_up_proj", ".ffn_gate_up_exps.weight"},
      {".experts.down_proj", ".ffn_down_exps.weight"},
      {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.sinks", "attn_sinks.weight"},
      {"model.embedding_norm", "token_embd_norm"},
      {"operator_norm", "attn_norm"},
      {".conv.in_proj", ".shortconv.in_proj"},
      {".conv.conv", ".shortconv.conv"},
      {".conv.out_proj", ".shortconv.out_proj"},
      {"self_attn.out_proj", "attn_output"},
      {"self_attn.q_layernorm", "attn_q_norm"},
      {"self_attn.k_layernorm", "attn_k_norm"},
      {"feed_forward.gate.", "ffn_gate_inp."},
      {"feed_forward.expert_bias", "exp_probs_b.bias"},
      {"feed_forward.experts.0.w1", "ffn_gate_exps"},
      {"feed_forward.experts.0.w3", "ffn_up_exps"},
      {"feed_forward.experts.0.w2", "ffn_down_exps"},
      {"feed_forward.w1", "ffn_gate"},
      {"feed_forward.w3", "ffn_up"},
      {"feed_forward.w2", "ffn_down"},
      {"mamba.in_proj", "ssm_in"},
      {"mamba.conv1d", "ssm_conv1d"},
      {"mamba.A_log", "ssm_a"},
      {"mamba.D", "ssm_d"},
      {"mamba.dt_bias", "ssm_dt.bias"},
      {"mamba.norm", "ssm_norm"},
      {"mamba.out_proj", "ssm_out"},
      {"block_sparse_moe.router.layer", "ffn_gate_inp"},
      {"block_sparse_moe.output_linear", "ffn_down_exps"},
      {"linear_attn.in_proj_qkv", "attn_qkv"},
      {"linear_attn.in_proj_z", "attn_gate"},
      {"linear_attn.in_proj_ba", "ssm_ba"},
      {"linear_attn.in_proj_b", "ssm_beta"},
      {"linear_attn.in_proj_a", "ssm_alpha"},
      {"linear_attn.conv1d", "ssm_conv1d"},
      {"linear_attn.A_log", "ssm_a"},
      {"linear_attn.dt_bias", "ssm_dt.bias"},
      {"linear_attn.norm", "ssm_norm"},
      {"linear_attn.out_proj", "ssm_out"},
      {"eh_proj", "nextn.eh_proj"},
      {"enorm", "nextn.enorm"},
      {"hnorm", "nextn.hnorm"},
      {"shared_head.", "nextn.shared_head_"},
      {"mlp.router.", "ffn_gate_inp."},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"block_sparse_moe.experts.0.w1", "ffn_gate_exps"},
      {"block_sparse_moe.experts.0.w3", "ffn_up_exps"},
      {"block_sparse_moe.experts.0.w2", "ffn_down_exps"},
      {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
      {"mlp.gate.", "ffn_gate_inp."},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
      {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
      {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
      {"mlp.experts.0.gate_proj", "ffn_gate_exps"},
      {"mlp.experts.0.up_proj", "ffn_up_exps"},
      {"mlp.experts.0.down_proj", "ffn_down_exps"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", post_norms ? "post_attention_norm" : "ffn_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
  };
  for (const auto& [from, to] : parts)
    replace(from, to);
  return name;
}

/// Names of GPT-2 and GPT-NeoX, whose layers have other ones.
std::string gpt_name_in_gguf(std::string name) {
  const std::pair<const char*, const char*> parts[] = {
      {"transformer.h.", "blk."},
      {"gpt_neox.layers.", "blk."},
      {"transformer.wte", "token_embd"},
      {"gpt_neox.embed_in", "token_embd"},
      {"transformer.wpe", "position_embd"},
      {"transformer.ln_f", "output_norm"},
      {"gpt_neox.final_layer_norm", "output_norm"},
      {"lm_head", "output"},
      {"embed_out", "output"},
      {"ln_1", "attn_norm"},
      {"input_layernorm", "attn_norm"},
      {"ln_2", "ffn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attention.query_key_value", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"attention.dense", "attn_output"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.dense_h_to_4h", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
      {"mlp.dense_4h_to_h", "ffn_down"},
  };
  for (const auto& [from, to] : parts)
    if (const auto at = name.find(from); at != name.npos)
      name.replace(at, std::string_view(from).size(), to);
  return name;
}

/// Names of Nemotron-H, whose layers are all called mixers.
std::string nemotron_name_in_gguf(std::string name) {
  const std::pair<const char*, const char*> parts[] = {
      {"backbone.layers.", "blk."},
      {"backbone.embeddings", "token_embd"},
      {"backbone.norm_f", "output_norm"},
      {"lm_head", "output"},
      {"mixer.norm", "ssm_norm"},
      {".norm.", ".attn_norm."},
      {"mixer.in_proj", "ssm_in"},
      {"mixer.out_proj", "ssm_out"},
      {"mixer.conv1d", "ssm_conv1d"},
      {"mixer.A_log", "ssm_a"},
      {"mixer.dt_bias", "ssm_dt.bias"},
      {"mixer.D", "ssm_d"},
      {"mixer.q_proj", "attn_q"},
      {"mixer.k_proj", "attn_k"},
      {"mixer.v_proj", "attn_v"},
      {"mixer.o_proj", "attn_output"},
      {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
      {"mixer.gate", "ffn_gate_inp"},
      {"mixer.experts.0.up_proj", "ffn_up_exps"},
      {"mixer.experts.0.down_proj", "ffn_down_exps"},
      {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
      {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
      {"mixer.up_proj", "ffn_up"},
      {"mixer.down_proj", "ffn_down"},
  };
  for (const auto& [from, to] : parts)
    if (const auto at = name.find(from); at != name.npos)
      name.replace(at, std::string_view(from).size(), to);
  return name;
}

/// A matrix with its columns as rows. width: bytes of a number.
std::string turned(std::string_view matrix, std::size_t rows, std::size_t cols, std::size_t width) {
  std::string out;
  for (std::size_t c = 0; c < cols; ++c)
    for (std::size_t r = 0; r < rows; ++r)
      out += matrix.substr((r * cols + c) * width, width);
  return out;
}

/// Queries, keys and values of each head in turn, [heads, 3, head], become [3, heads, head].
std::string by_kind(std::string_view rows, std::size_t heads) {
  std::string out;
  const std::size_t head = rows.size() / (3 * heads);
  for (std::size_t kind = 0; kind < 3; ++kind)
    for (std::size_t h = 0; h < heads; ++h)
      out += rows.substr((3 * h + kind) * head, head);
  return out;
}

/// Each head's two halves, row by row in turn: [heads, 2, half, width] becomes [heads, half, 2,
/// width].
std::string interleaved(std::string_view rows, std::size_t heads, std::size_t width) {
  std::string out;
  const std::size_t head = rows.size() / heads;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < head / width / 2; ++i)
      for (const std::size_t half : {std::size_t(0), head / 2})
        out += rows.substr(h * head + half + i * width, width);
  return out;
}

/// Adds gpt-oss's experts, [experts, inputs, outputs] in the folder, as tensors of [experts,
/// outputs, inputs], where outputs of gate and up that take turns become two tensors; and their
/// biases.
void add_stack(GgufWriter& out, const WeightsFile& weights, const std::string& name) {
  const bool bias = name.ends_with("_bias");
  const bool down = name.find("down_proj") != name.npos;
  const auto shape = weights.shape(name);
  const auto inputs = bias ? 1 : std::size_t(shape[1]);
  const auto outputs = std::size_t(shape.back());
  const auto dtype = std::string(weights.header.at(name).at("dtype").as_string());
  const std::string_view from = weights.tensor(name);
  const std::size_t width = from.size() / (std::size_t(shape[0]) * inputs * outputs);
  const std::size_t parts = down ? 1 : 2;
  for (std::size_t part = 0; part < parts; ++part) {
    std::string bytes;
    for (std::size_t e = 0; e < std::size_t(shape[0]); ++e)
      for (std::size_t o = part; o < outputs; o += parts)
        for (std::size_t i = 0; i < inputs; ++i)
          bytes += from.substr(((e * inputs + i) * outputs + o) * width, width);
    const auto stored = dtype == "F32"   ? gpu::DType::f32
                        : dtype == "F16" ? gpu::DType::f16
                                         : gpu::DType::bf16;
    std::uint32_t type = stored == gpu::DType::f32 ? 0 : stored == gpu::DType::f16 ? 1 : 30;
    std::vector<std::uint64_t> sizes{std::uint64_t(shape[0]), outputs / parts, inputs};
    if (bias) {
      const auto values = widen(stored, bytes.data(), bytes.size() / width);
      bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      sizes.pop_back();
      type = 0;
    }
    const std::string block = name.substr(0, name.find(".mlp.")).substr(13); // "model.layers."
    out.tensor(fmt::format("blk.{}.ffn_{}_exps.{}", block,
                           down        ? "down"
                           : part == 0 ? "gate"
                                       : "up",
                           bias ? "bias" : "weight"),
               type, sizes, bytes);
  }
}

/// Adds Granite's gates and ups, one below the other in the folder, as two tensors: those of all
/// experts, of a shared one, or of a dense layer.
void add_halves(GgufWriter& out, const std::string& name, std::uint32_t type,
                std::vector<std::uint64_t> shape, std::string_view bytes, bool mixture) {
  std::uint64_t& rows = shape[shape.size() - 2];
  rows /= 2;
  const std::size_t experts = shape.size() == 3 ? shape.front() : 1;
  const std::size_t half = bytes.size() / experts / 2;
  const std::string block = name.substr(13, name.find('.', 13) - 13); // "model.layers."
  for (const std::size_t up : {0, 1}) {
    std::string part;
    for (std::size_t e = 0; e < experts; ++e)
      part += bytes.substr((2 * e + up) * half, half);
    out.tensor(fmt::format("blk.{}.ffn_{}{}.weight", block, up ? "up" : "gate",
                           shape.size() == 3 ? "_exps"
                           : mixture         ? "_shexp"
                                             : ""),
               type, shape, part);
  }
}

/// Items of value heads that share a key head follow each other in a folder, and lie as far apart
/// as there are key heads in a file: [key heads, heads of each, item] becomes [heads of each, key
/// heads, item].
std::string apart(std::string_view heads, std::size_t key_heads, std::size_t value_heads) {
  std::string out;
  const std::size_t item = heads.size() / value_heads;
  const std::size_t each = value_heads / key_heads;
  for (std::size_t i = 0; i < each; ++i)
    for (std::size_t k = 0; k < key_heads; ++k)
      out += heads.substr((k * each + i) * item, item);
  return out;
}

/// A recurrent layer's tensor as converters write it. row: bytes of a row.
std::string recurrent_tensor(const std::string& name, std::string bytes, std::size_t row,
                             const json::object& config) {
  const std::size_t key_heads = size_in(config, "linear_num_key_heads");
  const std::size_t heads = size_in(config, "linear_num_value_heads");
  const std::size_t queries_and_keys = 2 * key_heads * size_in(config, "linear_key_head_dim");
  const auto is = [&](const char* part) { return name.find(part) != name.npos; };
  if (is("linear_attn.norm"))
    return bytes;
  if (is("in_proj_qkv") || is("conv1d")) {
    const std::size_t before = queries_and_keys * row;
    return bytes.substr(0, before) +
           apart(std::string_view(bytes).substr(before), key_heads, heads);
  }
  if (!is("out_proj"))
    return apart(bytes, key_heads, heads);
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += row)
    out += apart(std::string_view(bytes).substr(at, row), key_heads, heads);
  return out;
}

/// A matrix of each key head's query, key, values and gates in two: all queries, keys and values,
/// and all gates. row: bytes of a row.
std::pair<std::string, std::string> unjoined(std::string_view joined, std::size_t row,
                                             const json::object& config) {
  const std::size_t heads = size_in(config, "linear_num_key_heads");
  const std::size_t key = size_in(config, "linear_key_head_dim") * row;
  const std::size_t value = size_in(config, "linear_num_value_heads") / heads *
                            size_in(config, "linear_value_head_dim") * row;
  std::string parts[4];
  for (std::size_t at = 0; at < joined.size();)
    for (std::size_t part = 0; part < 4; ++part) {
      const std::size_t size = part < 2 ? key : value;
      parts[part] += joined.substr(at, size);
      at += size;
    }
  return {parts[0] + parts[1] + parts[2], parts[3]};
}

/// Names the tensors of a block that drafts as those of a layer behind the last.
std::string behind_layers(const std::string& name, std::size_t layers) {
  const std::pair<const char*, const char*> parts[] = {
      {"mtp.layers.0.", ""},
      {"mtp.fc.", "eh_proj."},
      {"mtp.pre_fc_norm_embedding.", "enorm."},
      {"mtp.pre_fc_norm_hidden.", "hnorm."},
      {"mtp.norm.", "shared_head.norm."},
  };
  for (const auto& [from, to] : parts)
    if (name.starts_with(from))
      return fmt::format("model.layers.{}.{}{}", layers, to,
                         name.substr(std::string_view(from).size()));
  return name;
}

/// The matrices of all experts one behind the other, by the name of the first one's.
std::string of_all_experts(const WeightsFile& weights, std::string name, std::uint64_t& experts) {
  const auto at = name.find(".experts.0.") + std::string_view(".experts.").size();
  std::string out;
  for (experts = 0; weights.header.contains(name); ++experts) {
    out += weights.tensor(name);
    name.replace(at, name.find('.', at) - at, std::to_string(experts + 1));
  }
  return out;
}

} // namespace

GgufWriter to_gguf(const std::string& folder, const std::string& architecture) {
  const json::object config = json::parse(read(folder + "/config.json")).as_object();
  GgufWriter out = gguf_metadata(architecture, config);
  const WeightsFile weights(folder);
  const bool post_norms = architecture.starts_with("gemma") || architecture == "olmo2" ||
                          architecture == "glm4moe" || architecture == "gpt-oss" ||
                          architecture.starts_with("qwen35") || architecture == "qwen3next";
  const bool stacked = architecture == "gemma4";
  const bool plus_one = architecture == "gemma2" || architecture == "gemma3" ||
                        architecture.starts_with("qwen35") || architecture == "qwen3next";
  const bool gpt = architecture == "gpt2" || architecture == "gptneox";
  const bool nemotron = architecture.starts_with("nemotron_h");
  const bool permuted = architecture == "llama" || architecture == "mistral3" ||
                        architecture == "smollm3" || architecture.starts_with("granite");
  const bool granite_mixes = size_in(config, "num_local_experts") > 0;
  for (const std::string& name : weights.names()) {
    const bool expert = !stacked && name.find(".experts.") != name.npos;
    if (expert && architecture == "gpt-oss") {
      add_stack(out, weights, name);
      continue;
    }
    if (expert && name.find(".experts.0.") == name.npos)
      continue;
    std::vector<std::uint64_t> shape;
    for (const auto size : weights.shape(name))
      shape.push_back(std::uint64_t(size));
    const auto dtype = std::string(weights.header.at(name).at("dtype").as_string());
    const auto stored = dtype == "F32"   ? gpu::DType::f32
                        : dtype == "F16" ? gpu::DType::f16
                                         : gpu::DType::bf16;
    std::string bytes(weights.tensor(name));
    std::uint32_t type = stored == gpu::DType::f32 ? 0 : stored == gpu::DType::f16 ? 1 : 30;
    if (expert) {
      shape.insert(shape.begin(), 0);
      bytes = of_all_experts(weights, name, shape.front());
    }
    if (name.ends_with(".shared_expert_gate.weight"))
      shape.erase(shape.begin());
    if (architecture == "gpt2" && shape.size() == 2 && name.find(".h.") != name.npos) {
      bytes = turned(bytes, shape[0], shape[1], gpu::size_of(stored));
      std::swap(shape[0], shape[1]);
    }
    if (name.find("input_linear") != name.npos) {
      add_halves(out, name, type, shape, bytes, granite_mixes);
      continue;
    }
    const bool convolution =
        name.ends_with(".conv1d.weight") || name.ends_with(".conv.conv.weight");
    if (convolution)
      shape.erase(shape.begin() + 1);
    if (shape.size() == 1 || name.ends_with(".gate.weight") || name.ends_with(".router.weight") ||
        name.ends_with(".router.proj.weight") || name.ends_with(".router.layer.weight") ||
        convolution || name.ends_with(".wpe.weight")) { // Routers and positions are f32, too.
      std::vector<float> values = widen(stored, bytes.data(), bytes.size() / gpu::size_of(stored));
      if (plus_one && name.find("norm") != name.npos && name.find("attn.norm") == name.npos)
        for (float& value : values)
          value += 1;
      if (name.ends_with(".A_log"))
        for (float& value : values)
          value = -std::exp(value);
      bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      type = 0;
    }
    const std::size_t width = bytes.size() / shape[0];
    const auto ends = [&](std::initializer_list<std::string_view> endings) {
      return std::ranges::any_of(endings, [&](auto each) { return name.ends_with(each); });
    };
    if (ends({"mamba.A_log", "mamba.D", "mixer.A_log", "mixer.D"}))
      shape.push_back(1);
    if (ends({"mamba.norm.weight", "mixer.norm.weight"})) {
      const std::uint64_t parts = nemotron ? size_in(config, "n_groups") : 1;
      shape = {parts, shape.front() / parts};
    }
    const auto heads = [&](const char* key) { return config.at(key).to_number<std::size_t>(); };
    if (permuted && name.find("q_proj") != name.npos)
      bytes = interleaved(bytes, heads("num_attention_heads"), width);
    if (permuted && name.find("k_proj") != name.npos)
      bytes = interleaved(bytes, heads("num_key_value_heads"), width);
    if (name.find("query_key_value") != name.npos)
      bytes = by_kind(bytes, heads("num_attention_heads"));
    if (architecture.starts_with("qwen35") && name.find(".linear_attn.") != name.npos)
      bytes = recurrent_tensor(name, std::move(bytes), width, config);
    if (const auto at = name.find("in_proj_qkvz"); at != name.npos) {
      const auto [qkv, z] = unjoined(bytes, width, config);
      for (const auto& [part, rows] : {std::pair("in_proj_qkv", &qkv), {"in_proj_z", &z}})
        out.tensor(name_in_gguf(std::string(name).replace(at, 12, part), post_norms), type,
                   {rows->size() / width, shape[1]}, *rows);
      continue;
    }
    std::string own =
        gpt ? gpt_name_in_gguf(name)
        : nemotron
            ? nemotron_name_in_gguf(name)
            : name_in_gguf(behind_layers(name, size_in(config, "num_hidden_layers")), post_norms);
    if (const auto at = own.find("shared_mlp.output_linear"); at != own.npos)
      own.replace(at, 24, granite_mixes ? "ffn_down_shexp" : "ffn_down");
    out.tensor(own, type, shape, bytes);
  }
  return out;
}

} // namespace paceline::models::test
