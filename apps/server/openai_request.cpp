#include "apps/server/openai_request.hpp"

#include "apps/console/limits.hpp"
#include "apps/console/options.hpp"
#include "apps/server/form_fields.hpp"
#include "apps/server/openai_messages.hpp"
#include "apps/server/request_memory.hpp"
#include "apps/server/response_input.hpp"
#include "apps/server/unsupported.hpp"
#include "base/parse_number.hpp"
#include "sampling/fields.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <limits>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

namespace bounds = sampling::limits;

constexpr std::int64_t int_max = std::numeric_limits<int>::max();
constexpr int completion_tokens_default = 16; // The default of OpenAI's and vLLM's /v1/completions.

/// Reads the number of that name, which is in its own place in each kind of body.
std::optional<int> read_number(Fields& fields, std::string_view name, std::string_view in_body,
                               std::optional<int> least = {}) {
  base::NumberRange range = sampling::request_number(name).range;
  range.least = least.value_or(range.least);
  const auto given = fields.number(in_body, range);
  return given ? std::optional(int(*given)) : std::nullopt;
}

/// Reads the numbers that each body may have under their own names.
void read_numbers(Fields& fields, Request& request) {
  for (const sampling::RequestNumber& field : sampling::request_numbers) {
    if (field.in_bodies != sampling::InBodies::by_name)
      continue;
    base::NumberRange range = field.range;
    if (field.name() == "top_k")
      range.least = -1; // vLLM's value for all.
    if (const auto given = fields.number(field.name(), range))
      field.member.set(request, std::max(*given, field.range.least));
  }
}

template <class T, class U>
void take(T& field, const std::optional<U>& given) {
  if (given)
    field = T(*given);
}

void read_seed(Fields& fields, Sampling& sampling) {
  const auto* value = fields.find("seed");
  if (!value)
    return;
  if (const auto* small = value->if_int64())
    sampling.seed = std::uint64_t(*small); // Negative ones are taken too: any 64 bits are a seed.
  else if (const auto* large = value->if_uint64())
    sampling.seed = *large;
  else
    fields.wrong("seed", "a whole number of at most 64 bits");
}

void read_logit_bias(Fields& fields, Sampling& sampling, int vocabulary) {
  const auto* biases = fields.nested("logit_bias");
  if (!biases)
    return;
  if (biases->size() > std::size_t(bounds::logit_bias_max))
    return fields.wrong("logit_bias", fmt::format("at most {} entries", bounds::logit_bias_max));
  Fields entries(*biases, "logit_bias");
  for (const auto& [name, value] : *biases) {
    const TokenId id = base::parse_number<TokenId>(name).value_or(-1);
    if (id < 0 || id >= vocabulary)
      return fields.wrong("logit_bias",
                          fmt::format("keyed by token ids from 0 to {}", vocabulary - 1));
    if (const auto bias = entries.number(name, {-limits::logit_bias_max, limits::logit_bias_max}))
      sampling.logit_bias.emplace_back(id, float(*bias));
  }
  fields.wrong(entries.error());
}

void read_allowed_ids(Fields& fields, Sampling& sampling, int vocabulary) {
  const auto* list = fields.find("allowed_token_ids");
  if (!list)
    return;
  auto read = read_ids(*list, "allowed_token_ids", vocabulary);
  if (!read)
    return fields.wrong(std::move(read.error()));
  sampling.allowed_token_ids = std::move(*read);
  if (sampling.allowed_token_ids.empty() ||
      sampling.allowed_token_ids.size() > std::size_t(vocabulary))
    fields.wrong("allowed_token_ids", fmt::format("1 to {} token ids", vocabulary));
}

void read_sampling(Fields& fields, Sampling& asked, int vocabulary) {
  read_seed(fields, asked);
  read_logit_bias(fields, asked, vocabulary);
  read_allowed_ids(fields, asked, vocabulary);
}

void read_stop(Fields& fields, std::vector<std::string>& stops) {
  const auto* value = fields.find("stop");
  if (!value)
    return;
  const std::string wanted = fmt::format("a string, or a list of at most {}, of 1 to {} bytes each",
                                         bounds::stop_strings_max, bounds::stop_string_bytes_max);
  const json::array one{*value};
  const json::array& list = value->is_array() ? value->get_array() : one;
  for (const json::value& stop : list)
    if (const auto* text = stop.if_string();
        text && !text->empty() && text->size() <= std::size_t(bounds::stop_string_bytes_max))
      stops.emplace_back(*text);
    else
      return fields.wrong("stop", wanted);
  if (stops.size() > std::size_t(bounds::stop_strings_max))
    fields.wrong("stop", wanted);
}

void read_stop_ids(Fields& fields, std::vector<TokenId>& ids, int vocabulary) {
  const auto* list = fields.find("stop_token_ids");
  if (!list)
    return;
  auto read = read_ids(*list, "stop_token_ids", vocabulary);
  if (!read)
    return fields.wrong(std::move(read.error()));
  ids = std::move(*read);
  if (ids.size() > std::size_t(bounds::stop_strings_max))
    fields.wrong("stop_token_ids", fmt::format("at most {}", bounds::stop_strings_max));
}

void read_bad_words(Fields& fields, std::vector<std::string>& words) {
  const auto* value = fields.find("bad_words");
  if (!value)
    return;
  const auto* list = value->if_array();
  if (!list || list->size() > std::size_t(bounds::logit_bias_max / 2))
    return fields.wrong("bad_words",
                        fmt::format("a list of at most {} words", bounds::logit_bias_max / 2));
  for (const json::value& word : *list)
    if (const auto* text = word.if_string(); text && !text->empty())
      words.emplace_back(*text);
    else
      return fields.wrong("bad_words", "a list of words, none of them empty");
}

void read_salt(Fields& fields, std::string& salt) {
  const auto given = fields.text("cache_salt");
  if (given && (given->empty() || given->size() > limits::cache_salt_bytes))
    return fields.wrong("cache_salt", fmt::format("1 to {} bytes", limits::cache_salt_bytes));
  take(salt, given);
}

template <class T>
void read_choice(Fields& fields, std::string_view name, std::optional<T>& field,
                 const Choices<T>& choices) {
  const auto given = fields.text(name);
  if (!given)
    return;
  field = meaning(choices, *given);
  if (!field)
    fields.wrong(name, names(choices));
}

void read_window(Fields& fields, Request& request) {
  const auto* window = fields.find("window");
  if (!window || (window->is_string() && window->get_string() == "auto"))
    return;
  request.window = read_number(fields, "window", "window");
}

/// Reads {"mode", "window", "verify", "draft", "sources"}, which are ours, so an unknown one among
/// them is an error.
void read_speculation(Fields& fields, Asked& asked) {
  Request& request = asked.request;
  const auto* object = fields.nested("speculation");
  if (!object)
    return;
  Fields inner(*object, "speculation");
  for (const auto& [name, value] : *object)
    if (name != "mode" && name != "window" && name != "verify" && name != "draft" &&
        name != "sources")
      inner.wrong(invalid_value(inner.path(name),
                                inner.path(name) + " is not known: speculation has mode, window, "
                                                   "verify, draft and sources"));
  read_choice(inner, "mode", request.speculation, choices_of<SpeculationMode>());
  std::optional<VerifyRule> rule;
  read_choice(inner, "verify", rule, choices_of<VerifyRule>());
  take(request.verify, rule);
  request.drafter = inner.text("draft");
  take(asked.sources, inner.boolean("sources"));
  read_window(inner, request);
  fields.wrong(inner.error());
}

void read_stream(Fields& fields, Asked& asked) {
  take(asked.stream, fields.boolean("stream"));
  const auto* options = fields.nested("stream_options");
  if (!options)
    return;
  if (!asked.stream)
    return fields.wrong("stream_options", "left out unless stream is true");
  Fields inner(*options, "stream_options");
  take(asked.include_usage, inner.boolean("include_usage"));
  if (inner.boolean("continuous_usage_stats") == true)
    inner.wrong("continuous_usage_stats", "false: usage comes at the end of a stream");
  fields.wrong(inner.error());
}

/// Reads the fields that both kinds of request have.
void read_common(Fields& fields, Asked& asked, int vocabulary) {
  Request& request = asked.request;
  take(asked.model, fields.text("model"));
  take(asked.n, fields.integer("n", 1, limits::choices_max));
  read_stream(fields, asked);
  read_stop(fields, request.stop);
  read_stop_ids(fields, request.stop_token_ids, vocabulary);
  read_bad_words(fields, asked.bad_words);
  take(asked.include_stop, fields.boolean("include_stop_str_in_output"));
  take(asked.add_special, fields.boolean("add_special_tokens"));
  if (const auto most = fields.integer("truncate_prompt_tokens", -1, int_max))
    asked.truncate_prompt = int(*most);
  if (asked.truncate_prompt == 0)
    fields.wrong("truncate_prompt_tokens", "-1, or at least 1");
  take(request.ignore_eos, fields.boolean("ignore_eos"));
  read_numbers(fields, request);
  if (request.min_tokens > request.max_tokens.value_or(int_max))
    fields.wrong("min_tokens", fmt::format("at most max_tokens, {}", *request.max_tokens));
  take(request.skip_special_tokens, fields.boolean("skip_special_tokens"));
  take(request.client, fields.text("user"));
  read_salt(fields, request.cache_salt);
  read_sampling(fields, request.sampling, vocabulary);
  read_speculation(fields, asked);
  if (auto form = read_form(fields, asked.api)) {
    request.constraint = std::move(form->constraint);
    asked.form_field = std::move(form->field);
  }
}

/// This field is vLLM's. The engine counts the likeliest alternatives once, for prompt and output.
void read_prompt_logprobs(Fields& fields, Asked& asked) {
  Request& request = asked.request;
  asked.top_logprobs = request.top_logprobs;
  const auto count = read_number(fields, "top_logprobs", "prompt_logprobs");
  if (!count)
    return;
  if (asked.stream)
    return fields.wrong("prompt_logprobs", "left out of a stream");
  asked.prompt_logprobs = *count;
  request.prompt_logprobs = true;
  request.top_logprobs = std::max(request.top_logprobs, *count);
}

/// Reads the prompts: a string, a list of strings, ids, or a list of lists of ids.
std::optional<ApiError> read_prompts(Fields& fields, std::vector<Prompt>& prompts, int vocabulary) {
  const auto* value = fields.find("prompt");
  if (!value)
    return invalid_value("prompt",
                         "prompt is missing: give a string, a list of strings, token ids or a "
                         "list of lists of token ids");
  if (const auto* text = value->if_string()) {
    prompts.emplace_back(std::string(*text));
    return std::nullopt;
  }
  const auto* list = value->if_array();
  if (!list || list->empty())
    return invalid_value("prompt",
                         "prompt must be a string, a list of strings, token ids or a list of "
                         "lists of token ids, and not empty");
  if (list->front().is_number()) {
    auto ids = read_ids(*value, "prompt", vocabulary);
    if (!ids)
      return ids.error();
    prompts.emplace_back(std::move(*ids));
    return std::nullopt;
  }
  if (list->size() > std::size_t(limits::choices_max))
    return invalid_value("prompt", fmt::format("prompt has {} entries: give at most {}",
                                               list->size(), limits::choices_max));
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json::value& each = (*list)[i];
    const std::string name = fmt::format("prompt[{}]", i);
    if (each.is_string() && list->front().is_string()) {
      prompts.emplace_back(std::string(each.get_string()));
      continue;
    }
    if (list->front().is_string() || !each.is_array() || each.get_array().empty())
      return invalid_value(name,
                           name + (list->front().is_string() ? " must be a string, as the first is"
                                                             : " must be a list of token ids"));
    auto ids = read_ids(each, name, vocabulary);
    if (!ids)
      return ids.error();
    prompts.emplace_back(std::move(*ids));
  }
  return std::nullopt;
}

void read_completion(Fields& fields, Asked& asked, int vocabulary) {
  fields.wrong(read_prompts(fields, asked.prompts, vocabulary));
  Request& request = asked.request;
  request.max_tokens =
      read_number(fields, "max_tokens", "max_tokens").value_or(completion_tokens_default);
  take(asked.echo, fields.boolean("echo"));
  if (const auto count = read_number(fields, "top_logprobs", "logprobs")) {
    request.logprobs = true;
    request.top_logprobs = *count;
    request.prompt_logprobs = asked.echo;
  }
}

/// Reads what the template is given besides the messages.
void read_template(Fields& fields, Asked& asked) {
  ChatOptions& chat = asked.chat;
  take(chat.continue_final_message, fields.boolean("continue_final_message"));
  const auto opening = fields.boolean("add_generation_prompt");
  chat.add_generation_prompt = opening.value_or(!chat.continue_final_message);
  if (chat.continue_final_message && chat.add_generation_prompt)
    fields.wrong("add_generation_prompt", "false where continue_final_message is true");
  const auto* variables = fields.nested("chat_template_kwargs");
  if (!variables)
    return;
  Fields inner(*variables, "chat_template_kwargs");
  for (const auto& [name, value] : *variables) {
    for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"})
      if (name == own)
        inner.wrong(
            invalid_value(inner.path(name), inner.path(name) + " is no variable: leave it out"));
    chat.variables.emplace_back(name, json::serialize(value));
  }
  fields.wrong(inner.error());
}

/// Reads the functions, which the template is shown as chats send them.
void take_tools(Fields& fields, Asked& asked) {
  const ToolShape shape = asked.api == Api::responses ? ToolShape::flat : ToolShape::nested;
  asked.tools = read_tools(fields, shape);
  if (asked.tools.callable() && !fields.error())
    asked.chat.variables.emplace_back("tools",
                                      json::serialize(nested_tools(*fields.find("tools"))));
}

void read_chat(Fields& fields, Asked& asked, const json::object& body) {
  read_conversation(fields, asked, body);
  Request& request = asked.request;
  const auto most = read_number(fields, "max_tokens", "max_tokens", 1);
  const auto newer = read_number(fields, "max_tokens", "max_completion_tokens", 1);
  if (newer || most)
    request.max_tokens = newer ? newer : most;
  take(request.logprobs, fields.boolean("logprobs"));
  take(request.top_logprobs, read_number(fields, "top_logprobs", "top_logprobs"));
  if (request.top_logprobs > 0 && !request.logprobs)
    fields.wrong("top_logprobs", "left out unless logprobs is true");
}

/// Fields that a response repeats, with what they are where they are left out.
json::object echo_of(const Fields& fields) {
  json::object echoed{{"background", false},
                      {"instructions", nullptr},
                      {"max_output_tokens", nullptr},
                      {"metadata", json::object()},
                      {"parallel_tool_calls", true},
                      {"previous_response_id", nullptr},
                      {"prompt_cache_key", nullptr},
                      {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                      {"safety_identifier", nullptr},
                      {"store", false},
                      {"temperature", nullptr},
                      {"text", {{"format", {{"type", "text"}}}}},
                      {"tool_choice", "auto"},
                      {"tools", json::array()},
                      {"top_logprobs", 0},
                      {"top_p", nullptr},
                      {"truncation", "disabled"},
                      {"user", nullptr}};
  for (auto& [name, value] : echoed)
    if (const auto* given = fields.find(name))
      value = *given;
  return echoed;
}

/// Reads whether the answer's text has log-probabilities.
void read_scores(Fields& fields, Request& request) {
  const auto* include = fields.find("include");
  if (const auto* list = include ? include->if_array() : nullptr)
    request.logprobs = std::ranges::find(*list, json::value(included_logprobs)) != list->end();
  take(request.top_logprobs, read_number(fields, "top_logprobs", "top_logprobs"));
  if (request.top_logprobs > 0 && !request.logprobs)
    fields.wrong("top_logprobs", fmt::format("left out unless include has {}", included_logprobs));
}

void read_response(Fields& fields, Asked& asked, const json::object& body) {
  read_conversation(fields, asked, body);
  asked.request.max_tokens = read_number(fields, "max_tokens", "max_output_tokens", 1);
  if (const auto* reasoning = fields.nested("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    if (const auto effort = inner.text("effort"))
      asked.chat.variables.emplace_back("reasoning_effort", json::serialize(json::string(*effort)));
    fields.wrong(inner.error());
  }
  read_scores(fields, asked.request);
  asked.echoed = echo_of(fields);
  asked.echoed_bytes = json::serialize(asked.echoed).size();
}

} // namespace

std::size_t Asked::bytes() const {
  std::size_t sum = 0;
  for (const Prompt& prompt : prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      sum += text->size();
    else
      sum += std::get<std::vector<TokenId>>(prompt).size() * sizeof(TokenId);
  for (const ChatMessage& message : messages) {
    sum += message.content.size();
    for (const auto& [name, value] : message.fields)
      sum += name.size() + value.size();
  }
  for (const auto& [name, value] : chat.variables)
    sum += name.size() + value.size();
  for (const std::string& word : bad_words)
    sum += sizeof(word) + word.size();
  sum += name_bytes() + tools.bytes() + echoed_bytes;
  return sum + std::size_t(n) * request.sampling.allowed_token_ids.size() * sizeof(TokenId) +
         bytes_of(request.constraint);
}

std::size_t Asked::name_bytes() const {
  return model.size() + request.client.size() + (request.drafter ? request.drafter->size() : 0);
}

ApiResult<std::vector<TokenId>> read_ids(const json::value& list, const std::string& name,
                                         int vocabulary) {
  const auto* array = list.if_array();
  if (!array)
    return refuse(invalid_value(name, name + " must be a list of token ids"));
  std::vector<TokenId> ids;
  ids.reserve(array->size());
  for (const json::value& value : *array) {
    const auto* id = value.if_int64();
    if (!id || *id < 0 || *id >= vocabulary)
      return refuse(invalid_value(
          name, fmt::format("{} must hold token ids from 0 to {}", name, vocabulary - 1)));
    ids.push_back(TokenId(*id));
  }
  return ids;
}

void read_conversation(Fields& fields, Asked& asked, const json::object& body) {
  asked.add_special = false; // A template writes what stands before the text.
  read_template(fields, asked);
  take_tools(fields, asked);
  auto messages = asked.api == Api::responses ? read_input(body) : read_messages(body);
  if (messages)
    asked.messages = std::move(*messages);
  else
    fields.wrong(messages.error());
}

ApiResult<Asked> read_request(Api api, const json::object& body, const Request& defaults,
                              int vocabulary) {
  Asked asked;
  asked.api = api;
  asked.request = defaults;
  Fields fields(body);
  fields.wrong(find_unsupported(api, body));
  if (api == Api::chat)
    read_chat(fields, asked, body);
  else if (api == Api::responses)
    read_response(fields, asked, body);
  else
    read_completion(fields, asked, vocabulary);
  read_common(fields, asked, vocabulary);
  read_prompt_logprobs(fields, asked);
  if (asked.sources && !(asked.stream && asked.request.logprobs))
    fields.wrong("speculation.sources", "false unless stream is true and logprobs are asked for");
  if (asked.choices() > limits::choices_max)
    fields.wrong("n", fmt::format("such that prompts times n are at most {}", limits::choices_max));
  if (fields.error())
    return refuse(*fields.error());
  return asked;
}

} // namespace paceline::apps::serve
