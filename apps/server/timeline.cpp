#include "apps/server/timeline.hpp"

#include "apps/console/json_text.hpp"
#include "apps/server/client_names.hpp"
#include "apps/server/transport.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace json = boost::json;
namespace {

std::int64_t microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

/// Returns [lane, step, begin, length, details], which is short, since there are many.
json::array span_json(const LaneSpan& span) {
  boost::system::error_code wrong;
  json::value details = json::parse("{" + span.details + "}", wrong);
  return {without_addresses(span.lane), span.step, microseconds(span.begin),
          microseconds(span.end - span.begin), wrong ? json::object() : std::move(details)};
}

/// Returns counts since the engine opened, and what it does now.
json::object counts_json(const Metrics& metrics) {
  return {{"running", metrics.running},
          {"waiting", metrics.waiting},
          {"prompt_tokens", metrics.prompt_tokens},
          {"generated_tokens", metrics.generated_tokens},
          {"drafted", metrics.drafted},
          {"judged", metrics.judged},
          {"accepted", metrics.accepted},
          {"rounds", metrics.rounds},
          {"windows", metrics.windows},
          {"lookahead_hits", metrics.lookahead_hits},
          {"fork_hits", metrics.fork_hits},
          {"lookahead_rounds", metrics.lookahead_rounds},
          {"preemptions", metrics.preemptions},
          {"draft_disabled", metrics.draft_disabled},
          {"target_busy_seconds", metrics.target_busy_seconds},
          {"draft_busy_seconds", metrics.draft_busy_seconds},
          {"overlapped_seconds", metrics.overlapped_seconds},
          {"kv_pages_used", metrics.kv_pages_used},
          {"kv_pages_total", metrics.kv_pages_total}};
}

/// One engine as a reader watches it.
struct Watched {
  std::weak_ptr<Replica> replica; ///< Weak: who looks holds up no engine that is to go.
  int number;                     ///< Tells the engines of a reader apart.
  LaneWatch watch;
  std::uint64_t left_out = 0; ///< Spans that no event had room for.
  json::object counts = {};   ///< Counts of the last event.
};

/// All engines as one reader watches them.
class Reader {
public:
  explicit Reader(Service& service) : service_(service) { ++service_.timeline_readers; }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { --service_.timeline_readers; }

  /// Returns the next event; empty if nothing has happened and the last one is fresh.
  std::string event();

private:
  Watched& watched(const std::shared_ptr<Replica>& replica);
  json::object part(Replica& replica, Watched& watched);

  Service& service_;
  std::vector<Watched> engines_;
  int numbers_ = 0;
  bool news_ = false; ///< Whether anything has happened since the last event.
  Clock::time_point sent_;
};

Watched& Reader::watched(const std::shared_ptr<Replica>& replica) {
  const auto known = std::ranges::find_if(
      engines_, [&](const Watched& one) { return one.replica.lock() == replica; });
  if (known != engines_.end())
    return *known;
  return engines_.emplace_back(replica, numbers_++, replica->engine().watch_lanes());
}

json::object Reader::part(Replica& replica, Watched& watched) {
  const auto spans = watched.watch.take();
  const std::size_t over = spans.size() - std::min(spans.size(), limits::timeline_spans);
  watched.left_out += over;
  json::array list;
  for (std::size_t i = over; i < spans.size(); ++i)
    list.emplace_back(span_json(spans[i]));
  json::object counts = counts_json(replica.engine().metrics());
  news_ |= !spans.empty() || counts != watched.counts;
  watched.counts = counts;
  return {{"engine", watched.number},
          {"model", replica.model()},
          {"now", microseconds(replica.engine().now())},
          {"lost", watched.watch.lost() + watched.left_out},
          {"spans", std::move(list)},
          {"counts", std::move(counts)}};
}

std::string Reader::event() {
  std::erase_if(engines_, [](const Watched& one) { return one.replica.expired(); });
  news_ = false;
  json::array engines;
  for (const auto& replica : service_.fleet().replicas())
    engines.emplace_back(part(*replica, watched(replica)));
  const auto now = Clock::now();
  if (!news_ && now < sent_ + limits::timeline_rest)
    return {};
  sent_ = now;
  json::object event{{"engines", std::move(engines)}};
  return "data: " + json_text(event) + "\n\n";
}

} // namespace

asio::awaitable<void> timeline(Service& service, Exchange& exchange) {
  if (service.timeline_readers >= limits::timeline_readers) {
    const ApiError full{.status = 503,
                        .message = fmt::format("{} clients read the timeline, and that is the "
                                               "most: close one of them",
                                               limits::timeline_readers),
                        .code = "too_many_readers",
                        .retry_after_seconds = 1};
    co_return co_await exchange.send(full);
  }
  if (exchange.request().method == "HEAD") {
    HttpResponse head{.content_type = "text/event-stream; charset=utf-8"};
    co_return co_await exchange.send(std::move(head));
  }
  Reader reader(service);
  asio::steady_timer beat(service.executor());
  exchange.on_gone([&beat] { beat.cancel(); });
  bool there = co_await exchange.begin_events();
  while (there && service.state() == Service::State::ready) {
    if (std::string event = reader.event(); !event.empty())
      there = co_await exchange.write_part(std::move(event));
    beat.expires_after(limits::timeline_beat);
    if (there && !exchange.gone())
      co_await beat.async_wait(as_result);
    there = there && !exchange.gone();
  }
  exchange.on_gone(nullptr);
  if (there)
    co_await exchange.end_parts();
}

} // namespace paceline::apps::serve
