#include "models/config.hpp"

#include "models/files.hpp"
#include "models/limits.hpp"
#include "models/scripted.hpp"

#include <boost/json/array.hpp>
#include <filesystem>
#include <fmt/format.h>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* other_model_hint = "use a Llama checkpoint with plain rotary positions";

void refuse(JsonFields& fields, std::string what) {
  fields.wrong(ErrorCode::unsupported, std::move(what), other_model_hint);
}

std::string architecture_of(JsonFields& fields) {
  const json::value* list = fields.find("architectures");
  if (list && list->is_array() && list->get_array().size() == 1 && list->get_array()[0].is_string())
    return std::string(list->get_array()[0].get_string());
  return fields.string("model_type", "") == "llama" ? "LlamaForCausalLM" : "";
}

/// rope_scaling, or what newer files call rope_parameters: only the plain rotation is known here.
void check_rope(JsonFields& fields, ModelConfig& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json::value* value = fields.find(key);
    if (!value)
      continue;
    if (!value->is_object()) {
      fields.wrong(ErrorCode::corrupt, fmt::format("{} is not an object", key), "");
      continue;
    }
    JsonFields inner(key, value->get_object());
    const std::string type = inner.string("rope_type", inner.string("type", "default"));
    if (type != "default")
      refuse(fields, fmt::format("{} of type {} is not known", key, shown(type)));
    config.rope_theta = float(inner.number("rope_theta", 1, 1e12, config.rope_theta));
    if (inner.error())
      fields.wrong(inner.error()->code, inner.error()->message, inner.error()->hint);
  }
}

/// Options that change results and are not known here are refused by name.
void check_options(JsonFields& fields) {
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (fields.boolean(key, false))
      refuse(fields, fmt::format("{} is not known", key));
  if (const auto act = fields.string("hidden_act", "silu"); act != "silu")
    refuse(fields, fmt::format("hidden_act {} is not known", shown(act)));
  for (const char* key : {"quantization_config", "sliding_window"})
    if (fields.find(key))
      refuse(fields, fmt::format("{} is not known", key));
  if (fields.number("partial_rotary_factor", 0, 1, 1.0) != 1)
    refuse(fields, "partial_rotary_factor is not known");
}

void check_shape(JsonFields& fields, const ModelConfig& c, bool head_dim_given) {
  const auto contradiction = [&](std::string what) {
    fields.wrong(ErrorCode::corrupt, std::move(what), "the checkpoint contradicts itself");
  };
  if (!head_dim_given && c.hidden % c.heads != 0)
    contradiction(fmt::format("hidden_size {} is not a multiple of num_attention_heads {}",
                              c.hidden, c.heads));
  if (c.heads % c.kv_heads != 0)
    contradiction(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}",
                              c.heads, c.kv_heads));
  if (c.head_dim % 2 != 0)
    contradiction(fmt::format("head_dim {} is odd", c.head_dim));
  if (std::int64_t(c.head_dim) * (c.heads + 2 * c.kv_heads) > 4 * limits::hidden_max)
    contradiction(
        fmt::format("{} heads of {} are more than this build takes", c.heads, c.head_dim));
}

/// One id or a list of ids; false when it is neither.
bool read_ids(const json::value& value, std::vector<TokenId>& out) {
  const auto add = [&](const json::value& id) {
    json::error_code failed;
    const auto number = id.is_number() ? id.to_number<std::int64_t>(failed) : std::int64_t(-1);
    if (failed || number < 0 || number >= limits::vocabulary_max)
      return false;
    out.push_back(TokenId(number));
    return true;
  };
  if (!value.is_array())
    return add(value);
  for (const json::value& id : value.get_array())
    if (!add(id))
      return false;
  return true;
}

void read_end_of_text(JsonFields& fields, GenerationDefaults& out) {
  const json::value* value = fields.find("eos_token_id");
  if (value && !read_ids(*value, out.end_of_text))
    fields.wrong(ErrorCode::corrupt, "eos_token_id is neither a token id nor a list of them",
                 "mend the file");
}

/// Values that are not listed keep the neutral value of `Sampling`, as servers of the field do
/// (not the defaults of the library that wrote the file).
void read_warping(JsonFields& fields, sampling::Warping& w) {
  const bool sample = fields.boolean("do_sample", false);
  const auto temperature = float(fields.number("temperature", 0, 100, 1.0));
  const auto top_k = int(fields.integer("top_k", 0, limits::vocabulary_max, 0));
  const auto top_p = float(fields.number("top_p", 1e-6, 1, 1.0));
  const auto min_p = float(fields.number("min_p", 0, 1, 0.0));
  w.repetition_penalty = float(fields.number("repetition_penalty", 1e-3, 1e3, 1.0));
  if (!sample)
    return;
  w.temperature = temperature;
  w.top_k = top_k;
  w.top_p = top_p;
  w.min_p = min_p;
}

} // namespace

Result<ModelConfig> load_config(const std::string& folder) {
  const auto object = read_json_object(folder + "/config.json");
  if (!object)
    return tl::unexpected(object.error());
  JsonFields fields(shown_path(folder + "/config.json"), *object);
  ModelConfig c;
  c.architecture = architecture_of(fields);
  if (c.architecture != "LlamaForCausalLM")
    refuse(fields, fmt::format("architecture {} is not known",
                               c.architecture.empty() ? "without a name" : shown(c.architecture)));
  c.hidden = int(fields.integer("hidden_size", 1, limits::hidden_max));
  c.layers = int(fields.integer("num_hidden_layers", 1, limits::layers_max));
  c.heads = int(fields.integer("num_attention_heads", 1, limits::heads_max));
  c.kv_heads = int(fields.integer("num_key_value_heads", 1, limits::heads_max, c.heads));
  c.head_dim = int(fields.integer("head_dim", 1, limits::head_dim_max, c.hidden / c.heads));
  c.ffn = int(fields.integer("intermediate_size", 1, 8 * limits::hidden_max));
  c.vocabulary = int(fields.integer("vocab_size", 1, limits::vocabulary_max));
  c.context = int(fields.integer("max_position_embeddings", 1, limits::context_max));
  c.norm_epsilon = float(fields.number("rms_norm_eps", 0, 1, 1e-6));
  c.rope_theta = float(fields.number("rope_theta", 1, 1e12, 10000.0));
  c.tied_embedding = fields.boolean("tie_word_embeddings", false);
  check_rope(fields, c);
  check_options(fields);
  check_shape(fields, c, fields.find("head_dim") != nullptr);
  if (fields.error())
    return tl::unexpected(*fields.error());
  return c;
}

Result<GenerationDefaults> load_generation_defaults(const std::string& folder) {
  GenerationDefaults out;
  if (is_scripted(folder))
    return out;
  std::error_code ignored;
  for (const std::string name : {"generation_config.json", "config.json"}) {
    const std::string path = folder + "/" + name;
    const bool first = name == "generation_config.json";
    if ((first && !std::filesystem::exists(path, ignored)) || !out.end_of_text.empty())
      continue;
    const auto object = read_json_object(path);
    if (!object)
      return tl::unexpected(object.error());
    JsonFields fields(shown_path(path), *object);
    if (first)
      read_warping(fields, out.warping);
    read_end_of_text(fields, out);
    if (fields.error())
      return tl::unexpected(*fields.error());
  }
  return out;
}

} // namespace paceline::models
