#include "base/telemetry.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::base;
using namespace std::chrono_literals;

TEST_CASE("overlap is the drafting time that lies under target time") {
  const base::TimePoint zero{};
  OverlapMeter meter;
  meter.target_began(zero + 10ms);
  meter.drafted(zero + 5ms, zero + 12ms); // while the pass is still open
  meter.target_ended(zero + 20ms);
  meter.drafted(zero + 12ms, zero + 18ms);
  meter.drafted(zero + 18ms, zero + 25ms); // beyond its end
  meter.target_began(zero + 30ms);
  meter.target_ended(zero + 40ms);
  meter.drafted(zero + 26ms, zero + 29ms); // between two passes
  meter.drafted(zero + 15ms, zero + 35ms); // under both
  const OverlapMeter::Sums sums = meter.sums();
  CHECK(sums.target == 20ms);
  CHECK(sums.draft == 43ms);
  CHECK(sums.overlapped == 2ms + 6ms + 2ms + 0ms + (5ms + 5ms));
}

TEST_CASE("an end without a beginning is no interval") {
  OverlapMeter meter;
  meter.target_ended(base::TimePoint{} + 5ms);
  meter.drafted(base::TimePoint{}, base::TimePoint{} + 5ms);
  CHECK(meter.sums().target == 0ms);
  CHECK(meter.sums().overlapped == 0ms);
}

TEST_CASE("a span is traced where a trace is kept, and a message is counted anyway") {
  Telemetry telemetry;
  { const Handling span(telemetry, "scheduler", "verdicts"); }
  CHECK(telemetry.snapshot().messages == 1);
}
