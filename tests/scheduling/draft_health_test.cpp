// How the draft does: late, paused, failing, disabled, and healthy again.
#include "scheduling/draft_health.hpp"
#include "scheduling/limits.hpp"

#include <doctest/doctest.h>
#include <random>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

constexpr base::TimePoint begin{1h};

/// One that is there.
DraftHealth draft_health(base::Duration patience = 10s) {
  DraftHealth health(true, patience);
  health.replaced_by(1);
  return health;
}

/// How long it is so from `now` on, to the second.
base::Duration lasts(DraftState state, const DraftHealth& health, base::TimePoint now) {
  base::Duration time{};
  while (health.state(now + time) == state)
    time += 1s;
  return time;
}

base::Duration pause(const DraftHealth& health, base::TimePoint now) {
  return lasts(DraftState::paused, health, now);
}

} // namespace

TEST_CASE("the worst of what is true of a draft is its state") {
  DraftHealth health(true, 10s);
  CHECK(health.state(begin) == DraftState::failing); // nobody has begun yet
  health.replaced_by(1);
  CHECK(health.state(begin) == DraftState::healthy);
  health.was_late(begin);
  CHECK(health.state(begin) == DraftState::late);
  CHECK(health.drafts(begin));
  health.held_up(begin - 10ms, begin);
  CHECK(health.state(begin) == DraftState::paused);
  CHECK_FALSE(health.drafts(begin));
  CHECK(health.state(begin + 10ms) == DraftState::late);
  CHECK(health.state(begin + 1s) == DraftState::healthy);
  health.replaced_by(0);
  CHECK(health.state(begin + 1s) == DraftState::failing);
  health.disable();
  health.replaced_by(2);
  CHECK(health.state(begin + 1s) == DraftState::disabled);
  CHECK(DraftHealth(false, 10s).state(begin) == DraftState::disabled);
}

TEST_CASE("nobody waits for a draft that was late, for longer each time until it is on time") {
  DraftHealth health = draft_health();
  const auto until = [&](base::Duration time) {
    CHECK(health.state(begin + time - 1ns) == DraftState::late);
    CHECK(health.state(begin + time) == DraftState::healthy);
  };
  for (const int factor : {1, 2, 4}) {
    health.was_late(begin);
    until(factor * scheduling::limits::draft_back_off_min);
  }
  for (int i = 0; i < 20; ++i)
    health.was_late(begin);
  until(scheduling::limits::draft_back_off_max);
  health.was_on_time();
  health.was_late(begin);
  until(scheduling::limits::draft_back_off_min);
}

TEST_CASE("who fails too often is disabled, and successes make up for failures") {
  FailureCount rarely(3, 2);
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(rarely.failed());
    rarely.succeeded();
    rarely.succeeded();
  }
  FailureCount often(3, 2);
  CHECK_FALSE(often.failed());
  often.succeeded();
  CHECK_FALSE(often.failed());
  CHECK_FALSE(often.failed());
  CHECK(often.failed());
  often.forget();
  CHECK_FALSE(often.failed());
}

TEST_CASE("a sequence is held up by the tokens that were bound when its draft was late") {
  speculation::Chain chain(1);
  chain.begin(4, 8, 8);
  chain.bind(6);
  SequenceHealth health;
  CHECK_FALSE(health.is_held_up(chain));
  health.was_late(chain, begin);
  CHECK(health.is_held_up(chain));
  CHECK(health.awaits() == 6);
  CHECK_FALSE(health.awaits()); // somebody does already
  chain.bind(7);
  for (const int position : {4, 5})
    chain.put(position, 1, nullptr);
  CHECK_FALSE(health.is_held_up(chain));
  CHECK(health.is_late());
  CHECK(health.go_on() == begin);
  CHECK_FALSE(health.go_on());
}

TEST_CASE("nothing is drafted for as long as a late draft has held a sequence up") {
  DraftHealth health = draft_health();
  CHECK(health.drafts(begin));
  health.held_up(begin, begin + 10s);
  CHECK(pause(health, begin + 10s) == 10s);
}

TEST_CASE("a clock that began with the engine makes no difference") {
  DraftHealth health = draft_health();
  health.held_up({}, base::TimePoint{10s});
  CHECK(pause(health, base::TimePoint{10s}) == 10s);
}

TEST_CASE("sequences that one delay has held up count once") {
  DraftHealth health = draft_health();
  for (int sequence = 0; sequence < 5; ++sequence)
    health.held_up(begin + sequence * 1ms, begin + 10s);
  CHECK(pause(health, begin + 10s) == 10s);
}

TEST_CASE(
    "delays again and again pause for longer and longer, and no more when they were long ago") {
  DraftHealth health = draft_health();
  base::TimePoint now = begin;
  for (const int factor : {1, 2, 4, 8, 16, 16}) {
    health.held_up(now, now + 1s);
    now += 1s;
    CHECK(pause(health, now) == factor * 1s);
    now += pause(health, now);
  }
  now += scheduling::limits::draft_pause_factor_max * 1s;
  health.held_up(now, now + 1s);
  CHECK(pause(health, now + 1s) == 1s);
}

TEST_CASE("without patience a draft is never given up") {
  DraftHealth health = draft_health(0s);
  CHECK_FALSE(health.stands_still(true, false, 1ms, base::TimePoint(0s)));
  CHECK_FALSE(health.stands_still(true, false, 1ms, base::TimePoint(1h)));
}

TEST_CASE("a draft stands still when it owes tokens and has written nothing for long") {
  DraftHealth health = draft_health();
  const auto at = [](base::Duration time) { return base::TimePoint(time); };
  CHECK_FALSE(health.stands_still(true, false, 1ms, at(0s)));
  CHECK_FALSE(health.stands_still(true, false, 1ms, at(1s)));
  CHECK_FALSE(health.stands_still(true, false, 1ms, at(9s)));
  CHECK_FALSE(health.stands_still(true, true, 1ms, at(12s))); // a sign of life
  CHECK_FALSE(health.stands_still(true, false, 1ms, at(13s)));
  CHECK_FALSE(health.stands_still(true, false, 1s, at(23s))); // a slow one
  CHECK(health.stands_still(true, false, 1ms, at(23s)));
  CHECK_FALSE(health.stands_still(true, false, 1ms, at(24s))); // its successor has time again
}

TEST_CASE("a draft that stands still is found out by requests that are shorter than that takes") {
  DraftHealth health = draft_health();
  base::TimePoint now{};
  for (int request = 0; request < 3; ++request) {
    CHECK_FALSE(health.stands_still(true, false, 1ms, now));
    now += 3s;
    CHECK_FALSE(health.stands_still(false, false, 1ms, now)); // it is over, and nobody asks
    now += 1h;
  }
  CHECK_FALSE(health.stands_still(true, false, 1ms, now));
  CHECK(health.stands_still(true, false, 1ms, now + 1s));
}

namespace {

/// A sequence whose drafted tokens are accepted with one chance, and cost so much each.
class Rounds {
public:
  Rounds(double acceptance, double cost, int window, unsigned seed)
      : acceptance_(acceptance), cost_(cost), window_(window), random_(seed) {}

  /// Tokens that a round brings; it takes what a plain one does, and what its window costs.
  double run() {
    ++rounds_;
    if (!health.pays()) {
      health.observe_plain();
      time_ += 1;
      return 1;
    }
    ++drafted_;
    int accepted = 0;
    while (accepted < window_ && chance_(random_) < acceptance_)
      ++accepted;
    health.observe(window_, accepted, window_ * cost_);
    time_ += 1 + window_ * cost_;
    return 1 + accepted;
  }
  /// Tokens in the time of a plain round, over so many rounds.
  double rate(int rounds) {
    double tokens = 0;
    time_ = 0;
    for (int i = 0; i < rounds; ++i)
      tokens += run();
    return tokens / time_;
  }
  double drafted() const { return double(drafted_) / rounds_; }
  void accept(double acceptance) { acceptance_ = acceptance; }

  SequenceHealth health;

private:
  double acceptance_;
  double cost_;
  int window_;
  std::mt19937 random_;
  std::uniform_real_distribution<double> chance_;
  double time_ = 0;
  int rounds_ = 0;
  int drafted_ = 0;
};

} // namespace

TEST_CASE("Windows that bring less than they cost are given up, at a cost of a hundredth") {
  for (const double acceptance : {0.0, 0.05, 0.1, 0.15})
    for (const double cost : {0.2, 0.3})
      for (unsigned seed = 0; seed < 8; ++seed) {
        Rounds rounds(acceptance, cost, 1, seed);
        CAPTURE(acceptance);
        CAPTURE(cost);
        CHECK(rounds.rate(20'000) > 0.99);
      }
}

TEST_CASE("Windows that bring more than they cost go on, whatever the acceptance is") {
  for (const auto& [acceptance, cost] : {std::pair{0.1, 0.02}, {0.2, 0.1}, {0.3, 0.15}, {0.5, 0.3}})
    for (unsigned seed = 0; seed < 8; ++seed) {
      Rounds rounds(acceptance, cost, 1, seed);
      rounds.rate(20'000);
      CAPTURE(acceptance);
      CHECK(rounds.drafted() > 0.98);
    }
}

// At the point where nothing is gained and nothing lost a false alarm is likeliest, and costs
// nothing. 200,000 rounds have 400 pauses at most; half of these would be one chance in 10^20.
TEST_CASE("Where windows bring just what they cost they are paused once in 500 rounds at most") {
  Rounds rounds(0.2, 0.2, 1, 3);
  int pauses = 0;
  for (int i = 0, drafted = 0; drafted < 200'000; ++i) {
    const bool before = rounds.health.pays();
    rounds.run();
    drafted += before;
    pauses += before && !rounds.health.pays();
  }
  CHECK(pauses < 2000);
}

TEST_CASE("A text that the draft comes to know is drafted again after a pause") {
  Rounds rounds(0, 0.1, 2, 1);
  rounds.rate(300);
  CHECK_FALSE(rounds.health.pays());
  rounds.accept(0.8);
  int waited = 0;
  while (!rounds.health.pays()) {
    rounds.run();
    ++waited;
  }
  CHECK(waited < 3000);
  const double before = rounds.drafted();
  rounds.rate(5000);
  CHECK(rounds.drafted() > before);
}

TEST_CASE("What was gained before does not pay for windows that lose") {
  Rounds rounds(0.9, 0.2, 4, 5);
  rounds.rate(10'000);
  CHECK(rounds.drafted() == 1);
  rounds.accept(0);
  CHECK(rounds.rate(20'000) > 0.99);
}
