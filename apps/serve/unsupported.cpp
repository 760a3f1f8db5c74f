#include "apps/serve/unsupported.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

/// A value that asks for nothing: null, false, 0, or something empty.
bool asks_for_nothing(const json::value& value) {
  switch (value.kind()) {
  case json::kind::null: return true;
  case json::kind::bool_: return !value.get_bool();
  case json::kind::int64: return value.get_int64() == 0;
  case json::kind::uint64: return false;
  case json::kind::double_: return value.get_double() == 0;
  case json::kind::string: return value.get_string().empty();
  case json::kind::array: return value.get_array().empty();
  case json::kind::object: return value.get_object().empty();
  }
  return false;
}

bool is_text(const json::value& value, const char* text) {
  return value.is_string() && value.get_string() == text;
}

/// Values that ask for what happens anyway.
bool is_default(std::string_view name, const json::value& value, const json::object& body) {
  if (name == "tool_choice" || name == "function_call")
    return is_text(value, "none") || is_text(value, "auto"); // there are no tools to choose
  if (name == "response_format") {
    const auto* format = value.if_object();
    const auto* type = format ? format->if_contains("type") : nullptr;
    return type && is_text(*type, "text");
  }
  if (name == "modalities")
    return value.is_array() && value.get_array().size() == 1 &&
           is_text(value.get_array().front(), "text");
  if (name == "best_of") { // as many as are asked for: the best of them are all of them
    const auto* n = body.if_contains("n");
    return value == (n && !n->is_null() ? *n : json::value(1));
  }
  if (name == "length_penalty")
    return value == json::value(1) || value == json::value(1.0);
  return false;
}

constexpr std::array<std::string_view, 27> unsupported{
    "best_of", "suffix", "tools", "tool_choice", "functions", "function_call", "response_format",
    "modalities", "audio", "prediction", "web_search_options",
    // vLLM's
    "use_beam_search", "length_penalty", "min_tokens", "stop_token_ids", "bad_words",
    "allowed_token_ids", "prompt_logprobs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar", "structured_outputs", "logits_processors", "prompt_embeds",
    "truncate_prompt_tokens", "continue_final_message"};

} // namespace

std::optional<ApiError> find_unsupported(const json::object& body) {
  for (const std::string_view name : unsupported) {
    const auto* value = body.if_contains(name);
    if (value && !asks_for_nothing(*value) && !is_default(name, *value, body))
      return ApiError{.status = 400,
                      .message = fmt::format("{} is not supported: leave it out", name),
                      .param = std::string(name),
                      .code = "unsupported_parameter"};
  }
  return std::nullopt;
}

} // namespace paceline::apps::serve
