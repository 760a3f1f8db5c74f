// No known field is taken and forgotten: each is obeyed, refused by name, or documented as ignored.
#include "apps/server/unsupported.hpp"
#include "tests/serve/live_server.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>

using namespace paceline;
using namespace paceline::testing;
namespace serve = paceline::apps::serve;
namespace json = boost::json;

namespace {

/// What both kinds of request have in OpenAI's API reference and vLLM's protocol.
constexpr const char* both[] = {
    "model", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty",
    "seed", "stop", "stream", "stream_options", "temperature", "top_p", "user",
    // vLLM's
    "use_beam_search", "top_k", "min_p", "repetition_penalty", "length_penalty", "stop_token_ids",
    "include_stop_str_in_output", "ignore_eos", "min_tokens", "skip_special_tokens",
    "spaces_between_special_tokens", "truncate_prompt_tokens", "allowed_token_ids",
    "prompt_logprobs", "bad_words", "add_special_tokens", "response_format", "structured_outputs",
    "guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend",
    "guided_whitespace_pattern", "structural_tag", "priority", "request_id", "logits_processors",
    "return_tokens_as_token_ids", "return_token_ids", "kv_transfer_params", "vllm_xargs",
    "repetition_detection", "thinking_token_budget", "cache_salt"};
constexpr const char* of_completions[] = {"prompt", "best_of", "echo", "suffix", "prompt_embeds"};
constexpr const char* of_chats[] = {
    "messages", "audio", "function_call", "functions", "max_completion_tokens", "metadata",
    "modalities", "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "safety_identifier", "service_tier", "store", "tool_choice", "tools",
    "top_logprobs", "verbosity", "web_search_options",
    // vLLM's
    "include_reasoning", "echo", "add_generation_prompt", "continue_final_message", "documents",
    "chat_template", "chat_template_kwargs", "mm_processor_kwargs"};

struct Kind {
  const char* path;
  json::object body;
};
const Kind completion{"/v1/completions", {{"prompt", "x"}, {"max_tokens", 1}}};
const Kind chat{"/v1/chat/completions",
                {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"max_tokens", 1}}};

HttpReply ask(const LiveServer& server, const Kind& kind, const std::string& field,
              const json::value& value) {
  json::object body = kind.body;
  body[field] = value;
  return server.ask("POST", kind.path, json::serialize(body));
}

/// Whether an error names the field, or something in it.
bool refuses(const HttpReply& reply, const std::string& field) {
  if (reply.status != 400)
    return false;
  const json::object body = reply.json();
  const auto* param = body.at("error").at("param").if_string();
  return param && (*param == field || param->starts_with(field + "."));
}

bool is_ignored(std::string_view field) {
  const auto all = serve::ignored_fields();
  return std::find(all.begin(), all.end(), field) != all.end();
}

/// Values that no field takes both of.
void check_known(const LiveServer& server, const Kind& kind, const std::string& field) {
  CAPTURE(kind.path);
  CAPTURE(field);
  const HttpReply object = ask(server, kind, field, {{"zz", 1}});
  const HttpReply text = ask(server, kind, field, "zz");
  CHECK((refuses(object, field) || refuses(text, field)) != is_ignored(field));
  CHECK(is_ignored(field) == (object.status == 200 && text.status == 200));
}

} // namespace

TEST_CASE(
    "each field of OpenAI's and vLLM's requests is obeyed, refused by name or ignored by name") {
  const LiveServer server(scripted());
  for (const Kind* kind : {&completion, &chat})
    for (const char* field : both)
      check_known(server, *kind, field);
  for (const char* field : of_completions)
    check_known(server, completion, field);
  for (const char* field : of_chats)
    check_known(server, chat, field);
}

TEST_CASE("a field of the one kind of request is refused in the other") {
  const LiveServer server(scripted());
  const std::pair<const Kind*, std::pair<const char*, json::value>> cases[] = {
      {&completion, {"messages", chat.body.at("messages")}},
      {&completion, {"max_completion_tokens", 100}},
      {&completion, {"top_logprobs", 2}},
      {&completion, {"chat_template_kwargs", {{"enable_thinking", false}}}},
      {&completion, {"continue_final_message", true}},
      {&chat, {"prompt", "x"}},
      {&chat, {"echo", true}}};
  for (const auto& [kind, field] : cases) {
    CAPTURE(field.first);
    CHECK(refuses(ask(server, *kind, field.first, field.second), field.first));
    CHECK(ask(server, *kind, field.first, nullptr).status == 200);
  }
  Kind stream = chat;
  stream.body["stream"] = true;
  CHECK(refuses(ask(server, stream, "stream_options", {{"continuous_usage_stats", true}}),
                "stream_options"));
}

TEST_CASE("the documents name each field that is refused or ignored") {
  std::ifstream file(PACELINE_DOCS "/serving.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  REQUIRE(!text.empty());
  for (const auto& fields : {serve::unsupported_fields(), serve::ignored_fields()})
    for (const std::string_view field : fields) {
      CAPTURE(field);
      CHECK(text.find("`" + std::string(field) + "`") != std::string::npos);
    }
}
