#include "apps/server/unsupported.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

bool is_text(const json::value& value, const char* text) {
  return value.is_string() && value.get_string() == text;
}

/// Whether false, and not true, is the value of this field that asks for something.
bool is_on_by_default(std::string_view name) {
  return name == "spaces_between_special_tokens" || name == "include_reasoning";
}

/// Whether the value asks for what happens anyway.
bool is_default(std::string_view name, const json::value& value, const json::object& body) {
  if (name == "tool_choice" || name == "function_call")
    return is_text(value, "none") || is_text(value, "auto"); // There are no tools to choose from.
  if (name == "modalities")
    return value.is_array() && value.get_array().size() == 1 &&
           is_text(value.get_array().front(), "text");
  if (name == "truncation")
    return is_text(value, "disabled");
  if (name == "include") // Nothing is encrypted here: reasoning can be read, and sent again.
    return value.is_array() && std::ranges::all_of(value.get_array(), [](const json::value& one) {
             return is_text(one, "reasoning.encrypted_content") || is_text(one, included_logprobs);
           });
  if (name == "n")
    return value == json::value(1);
  if (name == "best_of") { // The best of as many as are asked for are all of them.
    const auto* n = body.if_contains("n");
    return value == (n && !n->is_null() ? *n : json::value(1));
  }
  for (const char* neutral : {"length_penalty", "typical_p", "typical", "repeat_penalty", "tfs_z"})
    if (name == neutral)
      return value == json::value(1) || value == json::value(1.0);
  if (is_on_by_default(name))
    return value.is_null() || value == json::value(true);
  return false;
}

constexpr std::array unsupported = std::to_array<std::string_view>(
    {"best_of", "suffix", "functions", "function_call", "modalities", "audio", "prediction",
     "web_search_options", "reasoning_effort", "verbosity",
     // These fields are vLLM's.
     "use_beam_search", "length_penalty", "guided_decoding_backend", "guided_whitespace_pattern",
     "logits_processors", "prompt_embeds", "chat_template", "documents", "mm_processor_kwargs",
     "spaces_between_special_tokens", "return_tokens_as_token_ids", "return_token_ids",
     "thinking_token_budget", "enable_thinking", "repetition_detection", "include_reasoning",
     "kv_transfer_params", "vllm_xargs",
     // These fields are llama.cpp's, SGLang's, Ollama's and others'.
     "typical_p", "typical", "repeat_penalty", "repeat_last_n", "mirostat", "tfs_z", "top_a",
     "xtc_probability", "dry_multiplier", "dynatemp_range", "samplers", "n_predict", "num_predict",
     "max_new_tokens", "no_repeat_ngram_size", "template", "raw", "format", "options", "n_probs",
     "stop_regex", "lora_path", "custom_logit_processor", "think", "thinking", "extra_body"});

/// Fields that ask for nothing that could be had or missed here.
constexpr std::array ignored =
    std::to_array<std::string_view>({"metadata", "store", "service_tier", "safety_identifier",
                                     "prompt_cache_key", "prompt_cache_retention", "request_id"});

/// Fields of this server that do the same as an unsupported one.
constexpr std::pair<std::string_view, std::string_view> instead[] = {
    {"repeat_penalty", "give repetition_penalty"},
    {"enable_thinking", "give chat_template_kwargs"},
    {"think", "give chat_template_kwargs"},
    {"thinking", "give chat_template_kwargs"},
    {"reasoning_effort", "give chat_template_kwargs"},
    {"n_predict", "give max_tokens"},
    {"num_predict", "give max_tokens"},
    {"max_new_tokens", "give max_tokens"},
    {"n_probs", "give logprobs"},
    {"extra_body", "put what is in it beside the other fields"}};

std::string_view how_to_mend(std::string_view name) {
  for (const auto& [wrong, right] : instead)
    if (name == wrong)
      return right;
  return "leave it out";
}

constexpr std::string_view not_kept = "give store false, and the whole conversation as input: "
                                      "nothing is kept here";

/// A field of one kind of request in another one, and what to give there.
struct Misplaced {
  Api in;
  std::string_view name;
  std::string_view mend;
};
constexpr Misplaced misplaced[] = {
    {Api::completions, "messages", "give prompt, or ask /v1/chat/completions"},
    {Api::completions, "max_completion_tokens", "give max_tokens"},
    {Api::completions, "top_logprobs", "give logprobs"},
    {Api::completions, "tools", "leave it out, or ask /v1/chat/completions"},
    {Api::completions, "tool_choice", "leave it out"},
    {Api::completions, "chat_template_kwargs", "leave it out"},
    {Api::completions, "add_generation_prompt", "leave it out"},
    {Api::completions, "continue_final_message", "leave it out"},
    {Api::chat, "prompt", "give messages, or ask /v1/completions"},
    {Api::chat, "echo", "leave it out"},
    {Api::responses, "messages", "give input, or ask /v1/chat/completions"},
    {Api::responses, "prompt", "give input, or ask /v1/completions"},
    {Api::responses, "max_tokens", "give max_output_tokens"},
    {Api::responses, "max_completion_tokens", "give max_output_tokens"},
    {Api::responses, "response_format", "give text.format"},
    {Api::responses, "n", "leave it out"},
    {Api::responses, "echo", "leave it out"},
    {Api::responses, "logprobs", "give include, with message.output_text.logprobs"},
    {Api::responses, "prompt_logprobs", "leave it out, or ask /v1/chat/completions"},
    {Api::responses, "store", not_kept},
    {Api::responses, "previous_response_id", not_kept},
    {Api::responses, "conversation", not_kept},
    {Api::responses, "background", "leave it out"},
    {Api::responses, "include", "leave it out"},
    {Api::responses, "truncation", "give disabled, or truncate_prompt_tokens"},
    {Api::responses, "context_management", "leave it out"},
    {Api::responses, "max_tool_calls", "leave it out"},
    {Api::responses, "moderation", "leave it out"}};

const char* what_is_wrong(Api api) {
  switch (api) {
  case Api::completions: return "is for chats";
  case Api::chat: return "is none of a chat's fields";
  case Api::responses: return "is not supported in a response";
  }
  return "";
}

ApiError refusal(std::string_view name, std::string_view what, std::string_view mend) {
  return {.status = 400,
          .message = fmt::format("{} {}: {}", name, what, mend),
          .param = std::string(name),
          .code = "unsupported_parameter"};
}

} // namespace

std::span<const std::string_view> unsupported_fields() {
  return unsupported;
}

std::span<const std::string_view> ignored_fields() {
  return ignored;
}

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

std::optional<ApiError> find_unsupported(Api api, const json::object& body) {
  for (const std::string_view name : unsupported) {
    const auto* value = body.if_contains(name);
    if (value && (is_on_by_default(name) || !asks_for_nothing(*value)) &&
        !is_default(name, *value, body))
      return refusal(name, "is not supported", how_to_mend(name));
  }
  for (const auto& [in, name, mend] : misplaced)
    if (const auto* value = in == api ? body.if_contains(name) : nullptr;
        value && !asks_for_nothing(*value) && !is_default(name, *value, body))
      return refusal(name, what_is_wrong(api), mend);
  return std::nullopt;
}

} // namespace paceline::apps::serve
