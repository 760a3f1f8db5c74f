// The endpoints that answer at once.
#include "apps/server/endpoints.hpp"

#include "apps/console/json_text.hpp"
#include "apps/server/bodies.hpp"
#include "apps/server/client_names.hpp"
#include "apps/server/fields.hpp"
#include "apps/server/prompts.hpp"
#include "apps/server/unsupported.hpp"
#include "paceline/version.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace json = boost::json;
namespace {

/// Sends what became of a client's text or ids, which may be many times their size: the request
/// counts it until it is gone.
asio::awaitable<void> send_counted(Exchange& exchange, std::string reply) {
  if (!exchange.memory().hold(reply.capacity()))
    co_return co_await exchange.send(no_request_memory());
  HttpResponse response{.body = std::move(reply)};
  co_await exchange.send(std::move(response));
}

json::object model_entry(const Service& service, const Fleet::Served& one) {
  json::object entry{{"id", one.name},
                     {"object", "model"},
                     {"created", service.started()},
                     {"owned_by", "paceline"},
                     {"max_model_len", nullptr}};
  if (one.max_model_len)
    entry["max_model_len"] = *one.max_model_len;
  if (service.fleet().manages())
    for (json::array& devices = (entry["devices"] = json::array()).as_array();
         const std::string& names : one.devices)
      devices.emplace_back(without_addresses(names));
  return entry;
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
  case Service::State::ready: return service.fleet().well() ? "ready" : "failing";
  case Service::State::draining: return "draining";
  }
  return "";
}

ApiError no_prompt() {
  return invalid_value("prompt", "prompt is missing: give a string, or messages");
}

/// The contents of a request to /tokenize.
struct Tokenizing {
  std::optional<std::string> text; ///< None: the conversation of `asked`.
  Asked asked;
  bool pieces = false;
};

/// Reads a conversation the way a chat's request is read, so that both have the same number of
/// tokens.
std::optional<ApiError> read_tokenizing(const json::object& body, Tokenizing& to) {
  Fields fields(body);
  fields.wrong(find_unsupported(fields.find("prompt") ? Api::completions : Api::chat, body));
  to.asked.model = fields.text("model").value_or("");
  to.pieces = fields.boolean("return_token_strs").value_or(false);
  to.text = fields.text("prompt");
  if (!to.text && !fields.find("messages"))
    fields.wrong(no_prompt());
  else if (!to.text)
    read_conversation(fields, to.asked, body);
  if (const auto special = fields.boolean("add_special_tokens"))
    to.asked.add_special = *special;
  return fields.error();
}

} // namespace

asio::awaitable<void> list_models(Service& service, Exchange& exchange) {
  json::array list;
  for (const Fleet::Served& one : service.fleet().served())
    list.push_back(model_entry(service, one));
  json::object reply{{"object", "list"}};
  reply["data"] = std::move(list);
  co_await exchange.send_json(reply);
}

asio::awaitable<void> show_model(Service& service, Exchange& exchange) {
  const std::string name = exchange.request().path.substr(std::string("/v1/models/").size());
  const auto served = service.fleet().served();
  const auto found = std::find_if(served.begin(), served.end(),
                                  [&](const Fleet::Served& one) { return one.name == name; });
  if (found == served.end())
    co_return co_await exchange.send(no_such_model(name));
  const json::object entry = model_entry(service, *found);
  co_await exchange.send_json(entry);
}

asio::awaitable<void> tokenize(Service& service, Exchange& exchange) {
  Tokenizing to;
  const BodyReader read = [&](const json::object& body) { return read_tokenizing(body, to); };
  const auto wrong = co_await read_body(service, exchange, read);
  if (wrong)
    co_return co_await exchange.send(*wrong);
  const auto replica = service.fleet().any(to.asked.model);
  if (!replica)
    co_return co_await exchange.send(replica.error());
  const Engine& engine = (*replica)->engine();
  std::vector<TokenId> ids;
  if (!to.text) {
    auto chat = co_await encode_chat(service, **replica, to.asked, SIZE_MAX / 4);
    if (!chat)
      co_return co_await exchange.send(chat.error());
    ids = std::move(chat->tokens);
  }
  std::string reply;
  co_await service.aside(to.text ? to.text->size() : ids.size(), [&] {
    if (to.text)
      ids = engine.tokenize(*to.text, to.asked.add_special, true);
    json::object object{{"count", ids.size()},
                        {"max_model_len", (*replica)->max_model_len()},
                        {"tokens", json::array(ids.begin(), ids.end())},
                        {"token_strs", nullptr}};
    if (to.pieces) {
      auto& list = object["token_strs"].emplace_array();
      for (const TokenId id : ids)
        list.emplace_back(engine.token_name(id));
    }
    reply = json_text(object);
  });
  co_await send_counted(exchange, std::move(reply));
}

asio::awaitable<void> detokenize(Service& service, Exchange& exchange) {
  std::string model;
  std::vector<TokenId> ids;
  const BodyReader read = [&, vocabularies = service.fleet().vocabularies()](
                              const json::object& body) -> std::optional<ApiError> {
    Fields fields(body);
    model = fields.text("model").value_or("");
    if (fields.error())
      return fields.error();
    const auto* list = body.if_contains("tokens");
    auto all = read_ids(list ? *list : json::value(), "tokens", vocabulary_of(vocabularies, body));
    if (!all)
      return all.error();
    ids = std::move(*all);
    return std::nullopt;
  };
  const auto wrong = co_await read_body(service, exchange, read);
  if (wrong)
    co_return co_await exchange.send(*wrong);
  const auto replica = service.fleet().any(model);
  if (!replica)
    co_return co_await exchange.send(replica.error());
  std::string reply;
  co_await service.aside(ids.size(), [&] {
    reply = json_text(json::object{{"prompt", (*replica)->engine().detokenize(ids)}});
  });
  co_await send_counted(exchange, std::move(reply));
}

asio::awaitable<void> version(Service&, Exchange& exchange) {
  return exchange.send_json({{"version", PACELINE_VERSION}});
}

asio::awaitable<void> health(Service& service, Exchange& exchange) {
  return exchange.send_json({{"status", state_name(service)}}, service.fleet().well() ? 200 : 503);
}

asio::awaitable<void> ready(Service& service, Exchange& exchange) {
  return exchange.send_json({{"status", state_name(service)}}, service.ready() ? 200 : 503);
}

asio::awaitable<void> metrics(Service& service, Exchange& exchange) {
  return exchange.send(HttpResponse{.body = service.metrics_text(),
                                    .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

} // namespace paceline::apps::serve
