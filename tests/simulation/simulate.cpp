// ./dev simulate: many seeds, or one with its log.
#include "tests/simulation/campaign.hpp"
#include "tests/simulation/distribution.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using namespace paceline::testing;

constexpr const char* usage =
    "usage: simulate [--node | --machines] [--runs N] [--seed FIRST] [--threads T]\n"
    "                [--log | --first-failure]\n"
    "       simulate --rejection OUTPUTS\n"
    "  --node           the draft is on another machine\n"
    "  --machines       stages of the target are on others, and now and then the draft, too\n"
    "  --log            one run, the seed's, with a line for every message\n"
    "  --first-failure  ends with the first seed that fails\n"
    "  --rejection      how the rule's outputs are distributed while actors die\n";

int replay(std::uint64_t seed, Elsewhere elsewhere) {
  const FaultPlan plan = draw_plan(seed, elsewhere);
  const Report report = simulate(seed, plan, {.log = true, .elsewhere = elsewhere});
  std::fputs(report.log.c_str(), stdout);
  std::printf("plan: %s\n", plan.text().c_str());
  for (const std::string& failure : report.failures)
    std::printf("FAILED: %s\n", failure.c_str());
  return report.failed();
}

/// Made small, unless the first failure is all that is asked for.
Shrunk example_of(std::uint64_t seed, const CampaignOptions& options) {
  const FaultPlan plan = draw_plan(seed, options.elsewhere);
  const RunOptions with{.elsewhere = options.elsewhere};
  if (options.failures_max > 1)
    return shrink(seed, plan, with);
  return {plan, with, simulate(seed, plan, with)};
}

int run(const CampaignOptions& options) {
  const Campaign campaign = run_campaign(options);
  std::fputs(campaign.text().c_str(), stdout);
  for (const std::uint64_t seed : campaign.failing) {
    const Shrunk small = example_of(seed, options);
    std::printf("seed %llu: %s; %d requests: %s\n", static_cast<unsigned long long>(seed),
                small.plan.text().c_str(), small.report.requests,
                small.report.failures.empty() ? "?" : small.report.failures.front().c_str());
  }
  std::printf("%zu runs, %zu failures, %.1f seconds\n", campaign.runs, campaign.failed,
              campaign.seconds);
  return campaign.failed > 0;
}

int distribution(int outputs) {
  int bad = 0;
  int kills = 0;
  for (const Fit& fit : rejection_under_kills(outputs)) {
    std::printf("%s\n", fit.text().c_str());
    bad += fit.chi_square.p_value <= false_alarm;
    kills += fit.kills;
    outputs = fit.all;
  }
  std::printf("%d outputs, %d kills, %d distributions that are not the target's\n", outputs, kills,
              bad);
  return bad > 0;
}

} // namespace

int main(int argc, char** argv) {
  CampaignOptions options;
  bool log = false;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--log"))
      log = true;
    else if (!std::strcmp(argv[i], "--node"))
      options.elsewhere = Elsewhere::draft;
    else if (!std::strcmp(argv[i], "--machines"))
      options.elsewhere = Elsewhere::several;
    else if (!std::strcmp(argv[i], "--first-failure"))
      options.failures_max = 1;
    else if (!std::strcmp(argv[i], "--rejection") && more)
      return distribution(int(std::strtol(argv[i + 1], nullptr, 10)));
    else if (!std::strcmp(argv[i], "--runs") && more)
      options.runs = std::strtoull(argv[++i], nullptr, 10);
    else if (!std::strcmp(argv[i], "--seed") && more)
      options.first = std::strtoull(argv[++i], nullptr, 10);
    else if (!std::strcmp(argv[i], "--threads") && more)
      options.threads = int(std::strtol(argv[++i], nullptr, 10));
    else
      return std::fputs(usage, stderr), 2;
  }
  return log ? replay(options.first, options.elsewhere) : run(options);
}
