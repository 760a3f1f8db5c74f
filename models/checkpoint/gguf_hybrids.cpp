// Recurrent layers in the metadata of GGUF files.
#include "models/checkpoint/gguf_translation.hpp"
#include "models/family_options.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

/// Returns what files have in place of the values of a head, for messages.
std::string inner_for_head(const GgufTranslation& file) {
  return fmt::format("{} over {}", file.key("ssm.inner_size"), file.key("ssm.time_step_rank"));
}

/// Translates the sizes of Mamba-2's layers. Returns the numbers of their values.
std::int64_t translate_mamba2(GgufTranslation& file) {
  file.put({"mamba_d_conv", "ssm.conv_kernel"});
  file.put({"mamba_d_state", "ssm.state_size"});
  file.put({"mamba_n_groups", "ssm.group_count"});
  file.put({"mamba_n_heads", "ssm.time_step_rank"});
  file.config["mamba_conv_bias"] = std::ranges::any_of(
      file.files.tensors(), [](const auto& each) { return each.first.ends_with("_conv1d.bias"); });
  file.spelled["mamba_d_head"] = inner_for_head(file);
  return file.length("ssm.inner_size", 0);
}

/// Translates what Granite's files say in their own way.
void translate_granite_hybrid(GgufTranslation& file) {
  const auto rotates = file.files.boolean(file.key("rope.scaling.finetuned"));
  file.config["position_embedding_type"] = rotates && rotates->value_or(true) ? "rope" : "nope";
  const std::int64_t inner = translate_mamba2(file);
  const std::int64_t hidden = file.stated("hidden_size");
  const std::int64_t heads = file.stated("mamba_n_heads");
  const bool whole = hidden > 0 && heads > 0 && inner % hidden == 0 && inner % heads == 0;
  if (!whole || inner < hidden || inner / hidden > mamba_expand_max)
    return file.wrong(fmt::format("{} is not 1 to {} times {}, and a multiple of {}",
                                  file.key("ssm.inner_size"), mamba_expand_max,
                                  file.key("embedding_length"), file.key("ssm.time_step_rank")));
  file.config["mamba_expand"] = inner / hidden;
  file.config["mamba_d_head"] = inner / heads;
}

/// Translates what the layers of Nemotron-H are: those with keys have attention, and those with
/// units are feed-forwards.
void translate_nemotron(GgufTranslation& file, std::size_t layers) {
  file.spelled["layer_types"] = file.key("feed_forward_length");
  if (file.stated("num_nextn_predict_layers") > 0)
    return file.wrong(file.key("nextn_predict_layers") + " is not known", ErrorCode::unsupported,
                      "use a file without the blocks that draft");
  const auto kv_heads = file.for_layers("attention.head_count_kv", layers);
  const auto units = file.for_layers("feed_forward_length", layers);
  if (file.error())
    return;
  const char* const feeds = file.stated("n_routed_experts") > 0 ? "moe" : "mlp";
  json::array types;
  for (std::size_t i = 0; i < layers; ++i)
    types.push_back(kv_heads[i] > 0 ? "full_attention" : units[i] > 0 ? feeds : "linear_attention");
  file.config["layer_types"] = std::move(types);
  file.config["num_key_value_heads"] = std::max<std::int64_t>(1, std::ranges::max(kv_heads));
  file.config["intermediate_size"] = std::max<std::int64_t>(1, std::ranges::max(units));
  const std::int64_t inner = translate_mamba2(file);
  const std::int64_t heads = file.stated("mamba_n_heads");
  if (heads <= 0 || inner % heads != 0)
    return file.wrong(fmt::format("{} is not a multiple of {}", file.key("ssm.inner_size"),
                                  file.key("ssm.time_step_rank")));
  file.config["mamba_d_head"] = inner / heads;
}

} // namespace

void translate_recurrence(GgufTranslation& file) {
  if (!file.find("ssm.inner_size"))
    return;
  file.spelled["linear_value_head_dim"] = inner_for_head(file);
  const std::int64_t inner = file.length("ssm.inner_size", 0);
  const std::int64_t heads = file.stated("linear_num_value_heads");
  if (heads <= 0 || inner % heads != 0)
    return file.wrong(fmt::format("{} is not a multiple of {}", file.key("ssm.inner_size"),
                                  file.key("ssm.time_step_rank")));
  file.config["linear_value_head_dim"] = inner / heads;
  const GgufValue* list = file.find("attention.recurrent_layers");
  if (!list)
    return;
  file.spelled["layer_types"] = file.key("attention.recurrent_layers");
  const auto recurrent = list->integers();
  const auto layers = std::size_t(std::max<std::int64_t>(0, file.stated("num_hidden_layers")));
  if (!recurrent || recurrent->size() < layers)
    return file.wrong(file.spelled["layer_types"] + " does not list every layer");
  json::array types;
  for (std::size_t i = 0; i < layers; ++i)
    types.push_back((*recurrent)[i] != 0 ? "linear_attention" : "full_attention");
  file.config["layer_types"] = std::move(types);
}

void translate_hybrid(GgufTranslation& file) {
  const auto layers = file.layers();
  if (!layers)
    return;
  if (file.is("nemotron_h") || file.is("nemotron_h_moe"))
    return translate_nemotron(file, *layers);
  const bool granite = file.is("granitehybrid");
  json::array types;
  std::int64_t most = 0;
  for (const std::int64_t heads : file.for_layers("attention.head_count_kv", *layers)) {
    types.push_back(heads > 0 ? "full_attention" : granite ? "linear_attention" : "conv");
    most = std::max(most, heads);
  }
  file.config["layer_types"] = std::move(types);
  file.config["num_key_value_heads"] = std::max<std::int64_t>(1, most);
  file.spelled["layer_types"] = file.spelled["num_key_value_heads"];
  file.config["block_auto_adjust_ff_dim"] = false; // The file has the width itself.
  if (granite)
    translate_granite_hybrid(file);
}

} // namespace paceline::models
