#include "speculation/policy.hpp"

#include <doctest/doctest.h>
#include <random>

using paceline::speculation::SequenceThrottle;

TEST_CASE("A sequence whose drafts keep failing pauses, longer each time, and recovers") {
  SequenceThrottle throttle;
  const auto failures_until_pause = [&] {
    int n = 0;
    while (throttle.speculate() && n < 1000) {
      throttle.observe(1, 0);
      ++n;
    }
    return n;
  };
  const auto pause = [&] {
    int n = 0;
    while (!throttle.speculate()) {
      throttle.observe_plain();
      ++n;
    }
    return n;
  };
  const int first = failures_until_pause();
  CHECK((first > 5 && first < 60));
  CHECK(pause() == 16);
  CHECK(failures_until_pause() < first); // it is tried again, briefly
  CHECK(pause() == 32);
  for (int i = 0; i < 20; ++i)
    throttle.observe(4, 4);
  CHECK(throttle.speculate());
  failures_until_pause();
  CHECK(pause() == 16);
  for (int i = 0; i < 12; ++i) {
    failures_until_pause();
    CHECK(pause() <= 1024);
  }
  throttle.observe(0, 0); // nothing judged, nothing learned
  CHECK(throttle.speculate());
}

TEST_CASE("A sequence that accepts now and then is not paused") {
  SequenceThrottle throttle;
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    throttle.observe(2, int(random() % 3));
    REQUIRE(throttle.speculate());
  }
}
