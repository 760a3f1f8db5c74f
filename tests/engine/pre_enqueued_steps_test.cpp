// Pre-enqueued steps: after a full hit the target's lane goes on by itself.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <set>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

/// A chain ahead of the target, which agrees with it.
EngineOptions eager_options(double acceptance = 1) {
  EngineOptions options = simulated({.acceptance = acceptance});
  options.speculation = SpeculationMode::overlap;
  options.lookahead = Lookahead::chain;
  options.window = 4;
  return options;
}

Request endless_request(int max_tokens, int salt = 0) {
  Request request = request_of(6, max_tokens, salt);
  request.ignore_eos = true;
  return request;
}

/// Everything that a warper looks at before a token, so that a history that lacks some shows.
Request with_penalties(Request request, std::uint64_t seed) {
  request.sampling.temperature = 0.7f;
  request.sampling.repetition_penalty = 1.2f;
  request.sampling.presence_penalty = 0.3f;
  request.sampling.frequency_penalty = 0.2f;
  request.sampling.seed = seed;
  request.verify = VerifyRule::coupled;
  return request;
}

/// Every message of a round takes as long as `length` says of its receiver and batch. hold_up:
/// those behind it wait, too; later: they overtake it.
class Hops {
public:
  using Kind = actors::Fate::Kind;
  using Length = std::function<base::Duration(std::string_view, std::uint64_t)>;
  Hops(EngineWorld& world, Kind kind, Length length) {
    world.decide_fates(
        [this, &world, kind, length](const actors::Arrival& arrival) -> actors::Fate {
          const auto batch = batch_of(arrival.content);
          if (!batch || !met_.insert({arrival.name, *batch}).second)
            return {}; // it has waited
          const base::Duration delay = length(arrival.name, *batch);
          if (delay == 0ns)
            return {};
          world.stop_clock_after(delay);
          return {kind, delay};
        });
  }

private:
  static std::optional<std::uint64_t> batch_of(const caf::type_erased_tuple& content) {
    if (content.size() != 1)
      return {};
    if (content.match_element<scheduling::Batch>(0))
      return content.get_as<scheduling::Batch>(0).id;
    if (content.match_element<messages::Logits>(0))
      return ~content.get_as<messages::Logits>(0).pass->batch.id; // the sampler gets both
    if (content.match_element<scheduling::Verdicts>(0))
      return content.get_as<scheduling::Verdicts>(0).batch;
    return {};
  }
  std::set<std::pair<std::string_view, std::uint64_t>> met_;
};

struct Run {
  Answer answer;
  Metrics metrics;
  base::Duration time{};
};

Run run(const EngineOptions& options, const Request& request, base::Duration hop = 0ns) {
  EngineWorld world(options, 0, exact_order);
  const Hops hops(world, Hops::Kind::hold_up,
                  [hop](std::string_view, std::uint64_t) { return hop; });
  const auto begin = world.now();
  const auto recorder = world.submit(request);
  REQUIRE(world.run_until_ended({recorder}));
  const auto time = world.now() - begin;
  world.run();
  return {recorder->answer, world.metrics(), time};
}

EngineOptions plain(EngineOptions options) {
  options.speculation = SpeculationMode::off;
  return options;
}

} // namespace

TEST_CASE("after a full hit no message stands between two steps of the target") {
  const Request request = endless_request(200);
  const Run quick = run(eager_options(), request);
  const Run slow = run(eager_options(), request, 1ms);
  CHECK(slow.answer.tokens == quick.answer.tokens);
  const auto rounds = slow.metrics.rounds;
  CHECK(rounds <= 45); // five tokens each
  CHECK(slow.metrics.pre_enqueued_steps + 10 >=
        rounds); // but for the first, the last, and want of pages
  // A round that was not pre-enqueued waits for three: verdicts to sampler and scheduler, batch to
  // target.
  const auto waited = slow.time - quick.time;
  CHECK(waited <= (rounds - slow.metrics.pre_enqueued_steps) * 3ms + 5ms);
  // The same where nothing can be pre-enqueued, for a plain step has no lookahead.
  const Run off = run(plain(eager_options()), request);
  const Run slow_off = run(plain(eager_options()), request, 1ms);
  CHECK(slow_off.metrics.pre_enqueued_steps == 0);
  CHECK(slow_off.time - off.time >= 199 * 3ms);
}

TEST_CASE("pre-enqueued steps say what plain decoding says, for every window, ending and batch") {
  std::uint64_t pre_enqueued = 0;
  for (const int window : {1, 2, 4})
    for (const int sequences : {1, 2})
      for (const double acceptance : {0.8, 0.95, 1.0})
        for (const int max_tokens : {17, 60, 61, 62, 63, 64}) {
          CAPTURE(window);
          CAPTURE(sequences);
          CAPTURE(acceptance);
          CAPTURE(max_tokens);
          EngineOptions options = eager_options(acceptance);
          options.window = window;
          std::vector<Request> requests;
          for (int i = 0; i < sequences; ++i)
            requests.push_back(max_tokens % 2 ? endless_request(max_tokens, i)
                                              : with_penalties(endless_request(max_tokens, i), 5));
          EngineWorld world(options, std::uint64_t(max_tokens));
          const Hops hops(world, max_tokens % 3 ? Hops::Kind::hold_up : Hops::Kind::later,
                          [](std::string_view, std::uint64_t id) { return id % 3 * 1ms; });
          std::vector<std::shared_ptr<Recorder>> answers;
          for (const Request& request : requests)
            answers.push_back(world.submit(request));
          REQUIRE(world.run_until_ended(answers));
          for (int i = 0; i < sequences; ++i)
            CHECK(answers[std::size_t(i)]->answer.tokens ==
                  run(plain(options), requests[std::size_t(i)]).answer.tokens);
          world.run();
          const Metrics metrics = world.metrics();
          CHECK(metrics.kv_pages_used == 0);
          CHECK(metrics.recomputations == 0);
          pre_enqueued += metrics.pre_enqueued_steps;
        }
  CHECK(pre_enqueued > 500);
}

TEST_CASE("what ends while a pre-enqueued step runs ends where plain decoding does") {
  const Run whole = run(plain(eager_options()), endless_request(80));
  std::uint64_t pre_enqueued = 0;
  for (std::size_t last = 20; last < 60; ++last) {
    CAPTURE(last);
    // The end of a text is known on the lane, a stop string to the facade alone.
    EngineOptions options = eager_options();
    Request request = endless_request(80);
    request.stop = {whole.answer.text.substr(0, whole.answer.text.size() / 80 * last)};
    Run stopped = run(options, request, 1ms);
    CHECK(stopped.answer.tokens == run(plain(options), request).answer.tokens);
    CHECK(stopped.answer.end().reason == FinishReason::stop);
    CHECK(stopped.metrics.kv_pages_used == 0);
    pre_enqueued += stopped.metrics.pre_enqueued_steps;

    request = endless_request(80);
    request.ignore_eos = false;
    std::vector<TokenId> expected;
    for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::overlap}) {
      options.speculation = mode;
      EngineWorld world(options);
      world.opened().defaults.end_of_text = {whole.answer.tokens[last]};
      const auto recorder = world.submit(request);
      REQUIRE(world.run_until_ended({recorder}));
      if (mode == SpeculationMode::off)
        expected = recorder->answer.tokens;
      CHECK(recorder->answer.tokens == expected);
      CHECK(recorder->answer.end().reason == FinishReason::stop);
      world.run();
      CHECK(world.metrics().kv_pages_used == 0);
    }
  }
  CHECK(pre_enqueued > 100);
}

TEST_CASE("a cancel while a pre-enqueued step runs wastes a row, and hurts nobody") {
  const Run other = run(plain(eager_options()), endless_request(60, 1));
  const Run cancelled = run(plain(eager_options()), endless_request(60, 0));
  std::uint64_t pre_enqueued = 0;
  for (std::size_t moment = 60; moment < 400; moment += 3) {
    CAPTURE(moment);
    EngineWorld world(eager_options(), moment);
    const Hops hops(world, Hops::Kind::hold_up,
                    [](std::string_view, std::uint64_t) { return 2ms; });
    const auto first = world.submit(endless_request(60, 0));
    const auto second = world.submit(endless_request(60, 1));
    for (std::size_t i = 0; i < moment; ++i)
      world.step();
    world.cancel(1);
    REQUIRE(world.run_until_ended({first, second}));
    CHECK(second->answer.tokens == other.answer.tokens);
    const std::vector<TokenId>& said = first->answer.tokens;
    CHECK(std::equal(said.begin(), said.end(), cancelled.answer.tokens.begin()));
    world.run();
    const Metrics metrics = world.metrics();
    CHECK(metrics.kv_pages_used == 0);
    CHECK(metrics.kv_pages_quarantined == 0);
    pre_enqueued += metrics.pre_enqueued_steps;
  }
  CHECK(pre_enqueued > 500);
}

TEST_CASE("verdicts that overtake those of the step before wait for them") {
  const Request request = with_penalties(endless_request(150), 3);
  EngineWorld world(eager_options(), 0, exact_order);
  const Hops hops(world, Hops::Kind::later,
                  [](std::string_view receiver, std::uint64_t batch) -> base::Duration {
                    return receiver == "scheduler" && batch % 5 == 0 ? 25ms : 0ms;
                  });
  const auto recorder = world.submit(request);
  REQUIRE(world.run_until_ended({recorder}));
  CHECK(recorder->answer.tokens == run(plain(eager_options()), request).answer.tokens);
  const Metrics metrics = world.metrics();
  CHECK(metrics.pre_enqueued_steps > 5);
  CHECK(metrics.recomputations == 0);
  CHECK(metrics.stalls == 0);
}

TEST_CASE("whoever comes meanwhile is in the next step but one at the latest") {
  EngineWorld world(eager_options(), 0, exact_order);
  const auto running = world.submit(endless_request(200));
  REQUIRE(world.run_until([&] { return running->answer.tokens.size() > 50; }));
  REQUIRE(world.metrics().pre_enqueued_steps > 5);
  const auto begin = world.now();
  const auto newcomer = world.submit(endless_request(10, 1));
  REQUIRE(world.run_until([&] { return !newcomer->answer.tokens.empty(); }));
  CHECK(world.now() - begin <= 3 * 12ms); // what runs, what was pre-enqueued behind it, and its own
  CHECK(world.run_until_ended({running, newcomer}));
}
