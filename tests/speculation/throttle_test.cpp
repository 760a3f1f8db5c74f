#include "speculation/policy.hpp"

#include <doctest/doctest.h>
#include <random>

using paceline::speculation::SequenceThrottle;

namespace {

/// A sequence whose drafted tokens are accepted with one chance, and cost so much each.
class Rounds {
public:
  Rounds(double acceptance, double cost, int window, unsigned seed)
      : acceptance_(acceptance), cost_(cost), window_(window), random_(seed) {}

  /// Tokens that a round brings; it takes what a plain one does, and what its window costs.
  double run() {
    ++rounds_;
    if (!throttle.speculate()) {
      throttle.observe_plain();
      time_ += 1;
      return 1;
    }
    ++drafted_;
    int accepted = 0;
    while (accepted < window_ && chance_(random_) < acceptance_)
      ++accepted;
    throttle.observe(window_, accepted, window_ * cost_);
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

  SequenceThrottle throttle;

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
    const bool before = rounds.throttle.speculate();
    rounds.run();
    drafted += before;
    pauses += before && !rounds.throttle.speculate();
  }
  CHECK(pauses < 2000);
}

TEST_CASE("A text that the draft comes to know is drafted again after a pause") {
  Rounds rounds(0, 0.1, 2, 1);
  rounds.rate(300);
  CHECK_FALSE(rounds.throttle.speculate());
  rounds.accept(0.8);
  int waited = 0;
  while (!rounds.throttle.speculate()) {
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
