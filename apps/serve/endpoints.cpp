// The endpoints that answer at once.
#include "apps/serve/endpoints.hpp"

#include "apps/serve/fields.hpp"
#include "apps/serve/prompts.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace json = boost::json;
namespace {

asio::awaitable<void> send_json(Exchange& exchange, const json::object& object,
                                unsigned status = 200) {
  return exchange.send(HttpResponse{.status = status, .body = json::serialize(object)});
}

json::object model_entry(const Service& service, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", service.started()},
          {"owned_by", "paceline"},
          {"max_model_len", service.engine().target().max_model_len}};
}

ApiError no_such_model(const std::string& name) {
  return {.status = 404,
          .message = fmt::format("the model {} is not served here: see /v1/models", name),
          .param = "model",
          .code = "model_not_found"};
}

const char* state_name(const Service& service) {
  switch (service.state()) {
  case Service::State::loading: return "loading";
  case Service::State::ready: return service.well() ? "ready" : "failing";
  case Service::State::draining: return "draining";
  }
  return "";
}

ApiError no_prompt() {
  return {.status = 400,
          .message = "prompt is missing: give a string, or messages",
          .param = "prompt",
          .code = "invalid_value"};
}

/// A text, or a conversation, as the body of /tokenize has it.
asio::awaitable<ApiResult<EncodedPrompt>> encode_body(Service& service, const json::object& body) {
  Fields fields(body);
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  const bool opening = fields.boolean("add_generation_prompt").value_or(true);
  const auto prompt = fields.text("prompt");
  if (fields.error())
    co_return refuse(*fields.error());
  if (prompt) {
    EncodedPrompt encoded;
    co_await service.aside(prompt->size(),
                           [&] { encoded.tokens = service.engine().tokenize(*prompt, special); });
    co_return encoded;
  }
  if (!fields.find("messages"))
    co_return refuse(no_prompt());
  const auto messages = read_messages(body);
  if (!messages)
    co_return refuse(messages.error());
  co_return co_await encode_chat(service, *messages, opening);
}

} // namespace

asio::awaitable<void> list_models(Service& service, Exchange& exchange) {
  json::array list;
  for (const std::string& name : service.settings().model_names)
    list.push_back(model_entry(service, name));
  json::object reply{{"object", "list"}};
  reply["data"] = std::move(list);
  co_await send_json(exchange, reply);
}

asio::awaitable<void> show_model(Service& service, Exchange& exchange) {
  const std::string name = exchange.request().path.substr(std::string("/v1/models/").size());
  const auto& names = service.settings().model_names;
  if (std::find(names.begin(), names.end(), name) == names.end())
    co_return co_await exchange.send(no_such_model(name));
  const json::object entry = model_entry(service, name);
  co_await send_json(exchange, entry);
}

asio::awaitable<void> tokenize(Service& service, Exchange& exchange) {
  const auto body = parse_object(exchange.request().body);
  if (!body)
    co_return co_await exchange.send(body.error());
  Fields fields(*body);
  const bool pieces = fields.boolean("return_token_strs").value_or(false);
  if (fields.error())
    co_return co_await exchange.send(*fields.error());
  const auto encoded = co_await encode_body(service, *body);
  if (!encoded)
    co_return co_await exchange.send(encoded.error());
  const auto& ids = encoded->tokens;
  json::object reply{{"count", ids.size()},
                     {"max_model_len", service.engine().target().max_model_len},
                     {"tokens", json::array(ids.begin(), ids.end())},
                     {"token_strs", nullptr}};
  if (pieces) {
    auto& list = reply["token_strs"].emplace_array();
    for (const TokenId id : ids)
      list.emplace_back(service.engine().detokenize({id}));
  }
  co_await send_json(exchange, reply);
}

asio::awaitable<void> detokenize(Service& service, Exchange& exchange) {
  const auto body = parse_object(exchange.request().body);
  if (!body)
    co_return co_await exchange.send(body.error());
  const auto* list = body->if_contains("tokens");
  const auto ids = read_ids(list ? *list : json::value(), "tokens", service.vocabulary());
  if (!ids)
    co_return co_await exchange.send(ids.error());
  std::string text;
  co_await service.aside(ids->size(), [&] { text = service.engine().detokenize(*ids); });
  const json::object reply{{"prompt", text}};
  co_await send_json(exchange, reply);
}

asio::awaitable<void> version(Service&, Exchange& exchange) {
  return send_json(exchange, {{"version", PACELINE_VERSION}});
}

asio::awaitable<void> health(Service& service, Exchange& exchange) {
  return send_json(exchange, {{"status", state_name(service)}}, service.well() ? 200 : 503);
}

asio::awaitable<void> ready(Service& service, Exchange& exchange) {
  const bool is_ready = service.state() == Service::State::ready && service.well();
  return send_json(exchange, {{"status", state_name(service)}}, is_ready ? 200 : 503);
}

asio::awaitable<void> metrics(Service& service, Exchange& exchange) {
  return exchange.send(HttpResponse{.body = service.metrics_text(),
                                    .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

} // namespace paceline::apps::serve
