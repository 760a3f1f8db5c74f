// Promise 4 on real threads: actors die under running streams, and nobody notices but the clock.
#include "tests/fault/traffic.hpp"
#include "tests/support/effort.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;

TEST_CASE("random parts die under 16 streams: none is lost, every output is the undisturbed one") {
  const TrafficReport report = run_traffic({.kills = effort(100)});
  MESSAGE(report.text());
  CAPTURE(report.first_problem);
  CHECK(report.kills >= effort(100));
  CHECK(report.different == 0);
  CHECK(report.lost == 0);
  CHECK(report.requests >= 16);
  CHECK(report.metrics.restarts > std::uint64_t(report.kills) / 2);
  CHECK(report.metrics.stalls == 0);
  CHECK(report.metrics.kv_pages_used == 0);
  CHECK(report.metrics.kv_pages_quarantined == 0);
  CHECK(report.after.threads <= report.before.threads);
  CHECK(report.after.handles <= report.before.handles);
  if (!sanitized)
    CHECK(report.after.resident_bytes < report.before.resident_bytes + (32u << 20));
}

TEST_CASE("requests are cancelled among kills, and each ends once") {
  const TrafficReport report = run_traffic({.kills = effort(30), .cancelled = 0.5, .seed = 2});
  CAPTURE(report.first_problem);
  CHECK(report.different == 0);
  CHECK(report.lost == 0);
  CHECK(report.cancelled > 0);
  CHECK(report.metrics.kv_pages_used == 0);
}
