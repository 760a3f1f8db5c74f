#include "apps/server/exchange.hpp"

#include "apps/console/json_text.hpp"
#include "apps/console/limits.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <random>

namespace paceline::apps::serve {
namespace {

std::string new_id() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{:016x}", random());
}

} // namespace

std::string request_id(std::string_view given) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  const bool usable = !given.empty() && given.size() <= limits::request_id_bytes &&
                      std::all_of(given.begin(), given.end(), fits);
  return usable ? std::string(given) : new_id();
}

boost::asio::awaitable<void> Exchange::send(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after_seconds)
    response.headers.emplace_back("Retry-After", std::to_string(*error.retry_after_seconds));
  remark("error", error.code.empty() ? error.message : error.code);
  return send(std::move(response));
}

boost::asio::awaitable<void> Exchange::send_json(const boost::json::object& object,
                                                 unsigned status) {
  return send(HttpResponse{.status = status, .body = json_text(object)});
}

boost::asio::awaitable<bool> Exchange::begin_events() {
  return begin_parts({.content_type = "text/event-stream; charset=utf-8",
                      .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
}

void Exchange::on_gone(std::function<void()> action) {
  on_gone_ = std::move(action);
  if (gone_ && on_gone_)
    std::exchange(on_gone_, nullptr)();
}

void Exchange::client_gone() {
  gone_ = true;
  if (on_gone_)
    std::exchange(on_gone_, nullptr)();
}

} // namespace paceline::apps::serve
