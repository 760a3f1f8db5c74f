// ./dev soak engine: mixed traffic with cancels and kills for a long time, and what it leaves.
#include "tests/fault/traffic.hpp"

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  using namespace paceline::testing;
  const double minutes = argc > 1 ? std::strtod(argv[1], nullptr) : 20;
  if (minutes <= 0)
    return std::fputs("usage: soak_engine [MINUTES]\n", stderr), 2;
  const TrafficReport report = run_traffic({.kills = 10,
                                            .seconds = 60 * minutes,
                                            .cancelled = 0.3,
                                            .tokens_per_kill = 1000,
                                            .max_tokens = 160});
  std::fputs(report.text().c_str(), stdout);
  const bool grown = report.after.threads > report.before.threads ||
                     report.after.handles > report.before.handles ||
                     report.after.resident_bytes > report.before.resident_bytes + (32u << 20) ||
                     report.metrics.kv_pages_used + report.metrics.kv_pages_quarantined > 0;
  const bool bad = grown || report.different + report.lost > 0;
  std::printf("%.1f minutes: %s\n", minutes, bad ? "FAILED" : "nothing lost, nothing grown");
  return bad;
}
