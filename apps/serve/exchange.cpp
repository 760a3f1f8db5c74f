#include "apps/serve/exchange.hpp"

namespace paceline::apps::serve {

boost::asio::awaitable<void> Exchange::send(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after_seconds)
    response.headers.emplace_back("Retry-After", std::to_string(*error.retry_after_seconds));
  remark("error", error.code.empty() ? error.message : error.code);
  return send(std::move(response));
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
