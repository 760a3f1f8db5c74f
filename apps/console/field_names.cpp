#include "apps/console/field_names.hpp"

#include "actors/engine_fields.hpp"
#include "sampling/fields.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

namespace paceline::apps {
namespace {

struct FieldName {
  std::string_view field;
  std::string_view option;
};

/// Fields that are no numbers of the tables.
constexpr FieldName field_names[] = {
    {"EngineOptions::target", "--model"},
    {"EngineOptions::chat_template", "--chat-template"},
    {"EngineOptions::drafters", "--draft-model"},
    {"EngineOptions::devices", "--device"},
    {"EngineOptions::pipeline_parallel_size", "--pipeline-parallel-size"},
    {"EngineOptions::tensor_parallel_size", "--tensor-parallel-size"},
    {"EngineOptions::stage_layers", "--stage-layers"},
    {"EngineOptions::draft_devices", "--draft-device"},
    {"EngineOptions::draft_pipeline_parallel_size", "--draft-pipeline-parallel-size"},
    {"EngineOptions::draft_tensor_parallel_size", "--draft-tensor-parallel-size"},
    {"EngineOptions::draft_memory_bytes", "--draft-memory"},
    {"EngineOptions::node_rows", "--node-rows"},
    {"EngineOptions::reserve_device", "--reserve-device"},
    {"EngineOptions::dtype", "--dtype"},
    {"EngineOptions::weights", "--weights"},
    {"EngineOptions::draft_weights", "--draft-weights"},
    {"EngineOptions::head_weights", "--head-weights"},
    {"EngineOptions::activations", "--activations"},
    {"EngineOptions::draft_activations", "--draft-activations"},
    {"EngineOptions::kv_cache_dtype", "--kv-cache-dtype"},
    {"EngineOptions::draft_kv_cache_dtype", "--draft-kv-cache-dtype"},
    {"EngineOptions::max_model_len", "--max-model-len"},
    {"EngineOptions::kv_memory_bytes", "--kv-memory"},
    {"EngineOptions::memory_bytes", "memory_bytes of the placement"},
    {"EngineOptions::prefill", "--prefill"},
    {"EngineOptions::scheduling", "--scheduling-policy"},
    {"EngineOptions::batching", "--batching"},
    {"EngineOptions::time_between_tokens", "--time-between-tokens"},
    {"EngineOptions::speculation", "--speculation"},
    {"EngineOptions::lookahead", "--lookahead"},
    {"EngineOptions::trace_file", "--trace"},
    {"Request::stop", "--stop"},
    {"Request::ignore_eos", "--ignore-eos"},
    {"Request::constraint", "the form (--json-schema, --grammar or --regex)"},
};

/// Returns the first long one of a number's options.
std::string_view long_option(std::string_view options) {
  options.remove_prefix(options.find("--"));
  return options.substr(0, options.find(','));
}

template <class Table>
std::optional<std::string_view> option_in(const Table& table, std::string_view path) {
  for (const auto& field : table)
    if (field.path == path && !field.options.empty())
      return long_option(field.options);
  return std::nullopt;
}

std::string_view option_of(std::string_view field) {
  if (const auto option = option_in(sampling::request_numbers, field))
    return *option;
  if (const auto option = option_in(actors::engine_numbers, field))
    return *option;
  const auto* at = std::find_if(std::begin(field_names), std::end(field_names),
                                [&](const FieldName& name) { return name.field == field; });
  return at == std::end(field_names) ? field : at->option;
}

/// Returns the field's name in requests, which is the same in JSON and protobuf; fields of the
/// engine are not part of a request and get their options' names.
std::string_view request_field_of(std::string_view field) {
  for (const std::string_view owner : {"Request::", "Sampling::"})
    if (field.starts_with(owner))
      return field.substr(owner.size());
  return option_of(field);
}

bool in_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
}

/// Replaces every field in `text` by `known_as` of it; "FIELD = VALUE" becomes "NAME VALUE" if the
/// field has another name.
template <class KnownAs>
std::string renamed(std::string_view text, KnownAs known_as) {
  constexpr std::string_view assigned = " = ";
  std::string out;
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), in_a_name);
    std::string_view word = text.substr(0, std::size_t(end - text.begin()));
    while (word.ends_with(':')) // The colon is the sentence's, not the field's.
      word.remove_suffix(1);
    const std::string_view name = known_as(word);
    out += name;
    text.remove_prefix(word.size());
    if (name != word && text.starts_with(assigned)) {
      out += ' ';
      text.remove_prefix(assigned.size());
    } else if (!text.empty()) {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

template <class KnownAs>
Error renamed(const Error& error, KnownAs known_as) {
  return {error.code, renamed(std::string_view(error.message), known_as),
          renamed(std::string_view(error.hint), known_as)};
}

} // namespace

std::string with_options(std::string_view text) {
  return renamed(text, option_of);
}

Error with_options(const Error& error) {
  return renamed(error, option_of);
}

Error with_request_fields(const Error& error) {
  return renamed(error, request_field_of);
}

} // namespace paceline::apps
