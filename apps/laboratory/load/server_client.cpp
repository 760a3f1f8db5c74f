#include "apps/laboratory/load/server_client.hpp"

#include "apps/console/limits.hpp"
#include "apps/laboratory/load/event_stream.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace paceline::apps::load {
namespace asio = boost::asio;

// The arguments of coroutines are named variables: GCC 12 destroys such temporaries twice.

std::string refusal_text(unsigned status, std::string_view body) {
  const std::string said = error_message(body);
  return fmt::format("HTTP {}{}{}", status, said.empty() ? "" : ": ", said);
}

ServerClient::ServerClient(HttpOptions options)
    : work_(io_.get_executor()), options_(options), client_(io_, std::move(options)) {}

asio::awaitable<Result<ServerClient::Reply>> ServerClient::fetch(Ask what) {
  Reply reply;
  HttpClient::Take take = [&](unsigned, std::string_view piece) {
    if (reply.body.size() < limits::answer_bytes)
      reply.body += piece;
  };
  const auto answered = co_await client_.ask(std::move(what), std::move(take));
  if (!answered)
    co_return tl::unexpected(answered.error());
  reply.status = *answered;
  co_return reply;
}

Result<ServerClient::Reply> ServerClient::fetch_now(Ask what) {
  std::optional<Result<Reply>> reply;
  asio::co_spawn(io_, fetch(std::move(what)),
                 [&](std::exception_ptr, Result<Reply> done) { reply = std::move(done); });
  while (!reply)
    io_.run_one();
  return std::move(*reply);
}

std::vector<Result<ServerClient::Reply>> ServerClient::fetch_all(const std::vector<Ask>& asks,
                                                                 int at_once) {
  std::vector<Result<Reply>> replies(asks.size(), Reply());
  std::size_t next = 0;
  const auto work = [&]() -> asio::awaitable<void> {
    while (next < asks.size()) {
      const std::size_t mine = next++;
      Ask what = asks[mine];
      replies[mine] = co_await fetch(std::move(what));
    }
  };
  int open = 0;
  for (; open < at_once; ++open)
    asio::co_spawn(io_, work(), [&](std::exception_ptr) { --open; });
  while (open > 0)
    io_.run_one();
  return replies;
}

asio::awaitable<void> ServerClient::break_one(Ask what, std::chrono::milliseconds patience) {
  const auto alone = std::make_shared<HttpClient>(io_, options_);
  if (!alone->open())
    co_return;
  asio::steady_timer timer(io_, patience);
  timer.async_wait([alone](boost::system::error_code over) {
    if (!over)
      alone->close();
  });
  HttpClient::Take take = [&](unsigned, std::string_view) { alone->close(); };
  const auto answered = co_await alone->ask(std::move(what), std::move(take));
  static_cast<void>(answered); // It broke off, as it should.
}

void ServerClient::break_off(const std::vector<Ask>& asks, const Patience& patience) {
  int open = 0;
  for (std::size_t i = 0; i < asks.size(); ++i, ++open)
    asio::co_spawn(io_, break_one(asks[i], patience(i)), [&](std::exception_ptr) { --open; });
  while (open > 0)
    io_.run_one();
}

Result<std::string> ServerClient::first_model() {
  const auto reply = fetch_now({"GET", "/v1/models"});
  if (!reply)
    return tl::unexpected(reply.error());
  const std::string place = url().text();
  if (reply->status != 200)
    return fail(
        ErrorCode::unavailable,
        fmt::format("{}/v1/models answers {}", place, refusal_text(reply->status, reply->body)),
        reply->status == 401 ? "set OPENAI_API_KEY" : "name the --served-model-name");
  boost::system::error_code wrong;
  const auto models = boost::json::parse(reply->body, wrong);
  const auto* id = wrong ? nullptr : models.find_pointer("/data/0/id", wrong);
  if (!id || !id->is_string())
    return fail(ErrorCode::unavailable, place + " names no model", "name the --served-model-name");
  return boost::json::value_to<std::string>(*id);
}

std::vector<TokenId> ServerClient::tokenize(const std::string& model, const std::string& text) {
  // The second pair is llama.cpp's; servers ignore fields that they do not know.
  const boost::json::object body{{"model", model},
                                 {"prompt", text},
                                 {"add_special_tokens", false},
                                 {"content", text},
                                 {"add_special", false}};
  const auto reply = fetch_now({"POST", "/tokenize", boost::json::serialize(body)});
  boost::system::error_code wrong;
  const auto answer =
      boost::json::parse(reply && reply->status == 200 ? reply->body : std::string("{}"), wrong);
  const auto* tokens = wrong ? nullptr : answer.find_pointer("/tokens", wrong);
  if (!tokens)
    return {};
  auto ids = boost::json::try_value_to<std::vector<TokenId>>(*tokens);
  return ids.has_error() ? std::vector<TokenId>() : std::move(*ids);
}

} // namespace paceline::apps::load
