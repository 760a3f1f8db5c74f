#include "apps/serve/wire_requests.hpp"

#include "apps/limits.hpp"
#include "apps/serve/client_names.hpp"
#include "apps/serve/progress.hpp"
#include "apps/serve/prompts.hpp"
#include "net/codec.hpp"
#include "paceline/asio.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <unordered_map>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

using Clock = std::chrono::steady_clock;

Error not_now(Service::State state) {
  if (state == Service::State::loading)
    return {ErrorCode::unavailable, "the model is being loaded", "try again in a moment"};
  return {ErrorCode::unavailable, "the server is shutting down", "ask another one"};
}

net::ToClient refusal(Service& service, net::RequestNumber number, Error error) {
  service.metrics().submitted(to_string(error.code));
  return net::Failure{number, std::move(error)};
}

tl::unexpected<Error> too_long(const Replica& replica, std::size_t count, std::size_t most) {
  return fail(ErrorCode::invalid_argument, prompt_too_long(replica, count, most, "").message);
}

/// What the engine itself takes without a bound.
Result<void> check_bias(const Sampling& sampling) {
  constexpr float most = limits::logit_bias_max;
  for (const auto& [token, bias] : sampling.logit_bias)
    if (!(std::abs(bias) <= most || bias == -std::numeric_limits<float>::infinity()))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("logit_bias gives token {} {}", token, bias),
                  fmt::format("give numbers from {} to {}, or -infinity", -most, most));
  return {};
}

/// What a request holds besides its prompt.
std::size_t bytes_besides(const Request& request) {
  std::size_t sum = request.stop_token_ids.size() * sizeof(TokenId) +
                    request.sampling.logit_bias.size() * sizeof(std::pair<TokenId, float>);
  for (const std::string& stop : request.stop)
    sum += sizeof(stop) + stop.size();
  return sum;
}

Finished closed() {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{ErrorCode::unavailable, "the engine was closed", ""};
  return end;
}

} // namespace

struct WireRequests::One {
  One(Service& service, Fleet::Turn its_turn, net::RequestNumber its, AsyncStream events,
      Clock::time_point when, std::unique_ptr<MemoryShare> share)
      : turn(std::move(its_turn)), number(its), arrived(when), memory(std::move(share)),
        stream(std::move(events)), counted(service, Protocol::tcp),
        admission(
            service, [this] { stream.cancel(); }, 1) {}

  Fleet::Turn turn;
  net::RequestNumber number;
  Clock::time_point arrived;
  std::unique_ptr<MemoryShare> memory;
  AsyncStream stream;
  Service::Answering counted;
  Service::Admission admission;
  Progress progress;
  bool cancelled = false; ///< By the client.
  bool begun = false;     ///< Something of it was taken.
};

struct WireRequests::Shared {
  explicit Shared(const asio::any_io_executor& own)
      : executor(own), ended(own, asio::steady_timer::time_point::max()) {}

  struct Item {
    net::RequestNumber number = 0;
    Event event;
  };
  asio::any_io_executor executor;
  asio::steady_timer ended; ///< Never expires: cancelled when something comes after `abandon`.
  std::unordered_map<net::RequestNumber, std::unique_ptr<One>> open;
  std::deque<Item> ready;
  std::vector<std::unique_ptr<One>> over; ///< Their ends were taken, and are not written yet.
  std::size_t urgent = 0;                 ///< Of those that are ready.
  int ending = 0; ///< Requests that have ended, whose end has not been taken; either may be known
                  ///< first.
  std::function<void()> news;
};

WireRequests::WireRequests(Service& service, std::string peer, std::function<void()> news)
    : service_(service), peer_(std::move(peer)),
      shared_(std::make_shared<Shared>(service.executor())) {
  shared_->news = std::move(news);
}

WireRequests::~WireRequests() = default;

Result<void> WireRequests::prepare(const Replica& replica, Request& request) const {
  const Settings& settings = service_.settings();
  if (request.verify == VerifyRule::automatic)
    request.verify = settings.defaults.verify;
  if (const auto limit = settings.request_timeout; limit.count() > 0)
    request.deadline = std::min(request.deadline.value_or(limit), limit);
  if (auto wrong = check_bias(request.sampling); !wrong)
    return wrong;
  const std::size_t most = prompt_tokens_max(service_.settings(), replica, request.max_tokens);
  if (request.prompt_tokens.size() > most)
    return too_long(replica, request.prompt_tokens.size(), most);
  return {};
}

/// The prompt as ids, and what it takes in memory.
asio::awaitable<Result<void>> WireRequests::encode(const Replica& replica, Request& request,
                                                   MemoryShare& memory) const {
  const auto no_room = [] {
    return fail(ErrorCode::overloaded, no_request_memory().message, "retry with growing pauses");
  };
  const std::size_t besides = bytes_besides(request);
  const std::size_t text = request.prompt.size();
  if (!memory.hold(besides + text + request.prompt_tokens.size() * sizeof(TokenId)))
    co_return no_room();
  if (request.prompt_tokens.empty()) {
    const std::size_t most = prompt_tokens_max(service_.settings(), replica, request.max_tokens);
    auto tokens =
        co_await encode_text(service_, replica, request.prompt,
                             {request.add_special_tokens, request.parse_special_tokens}, most);
    if (!tokens)
      co_return too_long(replica, 0, most);
    request.prompt_tokens = std::move(*tokens);
    std::string().swap(request.prompt);
  }
  if (!memory.hold(besides +
                   2 * request.prompt_tokens.size() * sizeof(TokenId))) // the engine's, too
    co_return no_room();
  co_return Result<void>();
}

asio::awaitable<net::ToClient> WireRequests::submit(net::Submit asked) {
  const auto arrived = Clock::now();
  if (service_.state() != Service::State::ready)
    co_return refusal(service_, asked.number, not_now(service_.state()));
  if (const auto full = service_.check_room(1))
    co_return refusal(service_, asked.number,
                      {ErrorCode::overloaded, full->message, "retry with growing pauses"});
  Request& request = asked.request;
  auto turn =
      co_await service_.fleet().turn("", arrived, Clock::time_point::max(), [] { return false; });
  if (!turn)
    co_return refusal(service_, asked.number, {ErrorCode::unavailable, turn.error().message, ""});
  const Replica& replica = turn->replica();
  auto memory = std::make_unique<MemoryShare>(service_.memory());
  if (auto encoded = co_await encode(replica, request, *memory); !encoded)
    co_return refusal(service_, asked.number, std::move(encoded.error()));
  if (auto wrong = prepare(replica, request); !wrong)
    co_return refusal(service_, asked.number, std::move(wrong.error()));
  request.draft_scope = service_.draft_scope(client_.name);
  request.cache_salt = service_.cache_scope(client_.name);
  request.client = client_.name;
  request.client_weight = client_.weight;
  auto stream = replica.engine().submit(request);
  if (!stream) {
    turn->replica().note_health(stream.error().code != ErrorCode::unavailable);
    co_return refusal(service_, asked.number, for_clients(stream.error()));
  }
  auto one = std::make_unique<One>(service_, std::move(*turn), asked.number,
                                   AsyncStream(shared_->executor, std::move(*stream)), arrived,
                                   std::move(memory));
  one->stream.on_end([kept = std::weak_ptr(shared_)] {
    if (const auto here = kept.lock()) {
      ++here->ending;
      here->news();
    }
  });
  listen(shared_, *one);
  shared_->open.emplace(asked.number, std::move(one));
  service_.metrics().submitted("accepted");
  co_return net::Accepted{asked.number};
}

void WireRequests::listen(const std::shared_ptr<Shared>& shared, One& one) {
  one.stream.async_next(
      [kept = std::weak_ptr(shared), number = one.number](std::optional<Event> event) {
        const auto here = kept.lock();
        if (!here)
          return;
        const auto found = here->open.find(number);
        if (found == here->open.end())
          return;
        here->ready.push_back({number, event ? std::move(*event) : Event(closed())});
        here->urgent +=
            !found->second->begun || std::holds_alternative<Finished>(here->ready.back().event);
        here->ended.cancel();
        here->news();
      });
}

void WireRequests::cancel(net::RequestNumber number) {
  const auto found = shared_->open.find(number);
  if (found == shared_->open.end())
    return;
  found->second->cancelled = true;
  found->second->stream.cancel();
}

bool WireRequests::ready() const {
  return !shared_->ready.empty();
}
bool WireRequests::urgent() const {
  return shared_->urgent > 0 || (shared_->ending > 0 && ready());
}

void WireRequests::take(std::string& frames, std::size_t most) {
  while (!shared_->ready.empty() && frames.size() < most) {
    auto [number, event] = std::move(shared_->ready.front());
    shared_->ready.pop_front();
    const auto found = shared_->open.find(number);
    One& one = *found->second;
    const bool last = std::holds_alternative<Finished>(event);
    shared_->urgent -= !one.begun || last;
    one.begun = true;
    note(one, event);
    net::append(frames, net::Happened{number, std::move(event)});
    if (last) {
      --shared_->ending;
      shared_->over.push_back(std::move(found->second));
      shared_->open.erase(found);
    } else {
      listen(shared_, one);
    }
  }
}

void WireRequests::written() {
  const auto over = std::move(shared_->over); // what they end may look at this object
  shared_->over.clear();
}

/// Counts and logs; and an end that the client did not ask for is told as what it is, in the names
/// that it knows.
void WireRequests::note(One& one, Event& event) {
  one.progress.note(one.turn.replica(), event, one.arrived);
  auto* end = std::get_if<Finished>(&event);
  if (!end)
    return;
  if (end->reason == FinishReason::cancelled && !one.cancelled) {
    end->reason = FinishReason::error;
    end->error = not_now(Service::State::draining);
  }
  if (end->error)
    end->error = for_clients(*end->error);
  const std::chrono::duration<double, std::milli> took = Clock::now() - one.arrived;
  service_.log().info("request", {{"id", one.number},
                                  {"peer", peer_},
                                  {"protocol", "tcp"},
                                  {"milliseconds", std::round(took.count() * 10) / 10},
                                  {"prompt_tokens", end->usage.prompt_tokens},
                                  {"completion_tokens", end->usage.completion_tokens},
                                  {"finish", to_string(end->reason)}});
}

asio::awaitable<void> WireRequests::abandon() {
  shared_->news = [] {};
  for (auto& [number, one] : shared_->open) {
    one->cancelled = true;
    one->stream.cancel();
  }
  std::string away;
  for (;;) {
    take(away, std::size_t(-1));
    away.clear();
    written();
    if (shared_->open.empty())
      break;
    co_await shared_->ended.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

} // namespace paceline::apps::serve
