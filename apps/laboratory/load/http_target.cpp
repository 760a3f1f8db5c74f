#include "apps/laboratory/load/http_target.hpp"

#include "apps/console/limits.hpp"
#include "apps/laboratory/load/server_metrics.hpp"
#include "base/clock.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <utility>

namespace paceline::apps::load {
namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

// The arguments of coroutines are named variables: GCC 12 destroys such temporaries twice.

HttpTarget::HttpTarget(HttpOptions options, Api api, boost::json::object request)
    : server_(std::move(options)), api_(api), request_(std::move(request)), looks_(server_.io()) {
  request_["stream"] = true;
  request_["stream_options"] = {{"include_usage", true}};
}

HttpTarget::~HttpTarget() {
  cancel();
}

// --- before the load

Result<void> HttpTarget::open(std::string name) {
  if (auto found = server_.open(); !found)
    return found;
  if (name.empty()) {
    auto first = server_.first_model();
    if (!first)
      return tl::unexpected(first.error());
    name = std::move(*first);
  }
  model_ = std::move(name);
  request_["model"] = model_;
  return {};
}

std::vector<TokenId> HttpTarget::tokenize(const std::string& text) {
  return server_.tokenize(model_, text);
}

// --- the load

double HttpTarget::now() const {
  return base::seconds(Clock::now() - began_);
}

void HttpTarget::begin(asio::awaitable<void> work) {
  ++open_;
  asio::co_spawn(server_.io(), std::move(work), [this](std::exception_ptr) { --open_; });
}

void HttpTarget::send(std::size_t item, const Item& what) {
  ++sent_;
  begin(follow(item, body_of(what)));
  if (state_ && !std::exchange(watching_, true))
    begin(watch());
}

std::string HttpTarget::body_of(const Item& item) const {
  boost::json::object body = request_;
  body["max_tokens"] = item.max_tokens;
  if (api_ == Api::chat)
    body["messages"] =
        boost::json::array{{{"role", "user"}, {"content", std::get<std::string>(item.prompt)}}};
  else
    body["prompt"] =
        std::visit([](const auto& prompt) { return boost::json::value_from(prompt); }, item.prompt);
  return boost::json::serialize(body);
}

asio::awaitable<void> HttpTarget::follow(std::size_t item, std::string body) {
  EventStream events;
  std::string refusal;
  int parts = 0;
  HttpClient::Take take = [&](unsigned status, std::string_view piece) {
    if (status != 200) {
      if (refusal.size() < limits::answer_bytes)
        refusal += piece;
      return;
    }
    for (int brought = events.feed(piece); brought > 0; --brought, ++parts)
      events_.push_back({.kind = Event::Kind::tokens, .item = item, .seconds = now()});
  };
  HttpClient::Ask what{"POST", api_ == Api::chat ? "/v1/chat/completions" : "/v1/completions",
                       std::move(body)};
  const auto answer = co_await server_.http().ask(std::move(what), std::move(take));
  end(item, answer, events, refusal, parts);
}

void HttpTarget::end(std::size_t item, const Result<unsigned>& answer, const EventStream& events,
                     const std::string& refusal, int parts) {
  Event event{.kind = Event::Kind::failed, .item = item, .seconds = now()};
  if (!answer)
    event.reason = answer.error().message;
  else if (*answer != 200)
    event.reason = refusal_text(*answer, refusal);
  else if (!events.error().empty())
    event.reason = events.error();
  else if (!events.complete())
    event.reason = "the stream ended before its answer did";
  else
    event.kind = Event::Kind::done;
  event.prompt_tokens = events.prompt_tokens().value_or(0);
  event.output_tokens = events.output_tokens().value_or(parts);
  events_.push_back(std::move(event));
  if (--sent_ == 0)
    looks_.cancel();
}

std::optional<Event> HttpTarget::next(std::optional<double> until) {
  while (events_.empty() && !waked_ && (until || sent_ > 0)) {
    if (!until)
      server_.io().run_one();
    else if (const double left = *until - now(); left > 0)
      server_.io().run_one_for(base::from_seconds(left));
    else
      break;
  }
  waked_ = false;
  if (events_.empty())
    return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void HttpTarget::wake() {
  asio::post(server_.io(), [this] { waked_ = true; });
}

void HttpTarget::cancel() {
  server_.http().close();
  looks_.cancel();
  while (open_ > 0)
    server_.io().run_one();
  events_.clear();
  sent_ = 0;
}

// --- what the server says of itself

asio::awaitable<void> HttpTarget::look() {
  HttpClient::Ask what{"GET", "/metrics"};
  const auto page = co_await server_.fetch(std::move(what));
  if (page && page->status == 200)
    state_ = read_metrics(page->body);
}

void HttpTarget::refresh_state() {
  begin(look());
  while (open_ > 0 && !waked_)
    server_.io().run_one();
}

/// Reads the metrics while there are requests under way.
asio::awaitable<void> HttpTarget::watch() {
  while (sent_ > 0) {
    looks_.expires_after(limits::metrics_pause);
    co_await looks_.async_wait(asio::as_tuple(asio::use_awaitable));
    co_await look();
  }
  watching_ = false;
}

} // namespace paceline::apps::load
