#include "tests/simulation/campaign.hpp"

#include "tests/simulation/witness.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <mutex>
#include <thread>

namespace paceline::testing {
namespace {

constexpr std::size_t seeds_kept = 10;

void add(Campaign& campaign, const Report& report) {
  ++campaign.runs;
  if (report.failed()) {
    ++campaign.failed;
    campaign.failing.push_back(report.seed);
  }
  for (const auto& [name, count] : report.faults)
    campaign.faults[name] += std::uint64_t(count);
  for (const char* name : probe_names())
    campaign.probes[name] += 0;
  for (const auto& [name, count] : report.probes)
    campaign.probes[name] += std::uint64_t(count);
  for (const auto& [name, count] : report.ends)
    campaign.ends[name] += std::uint64_t(count);
  campaign.requests.push_back(report.requests);
  campaign.tokens.push_back(report.tokens);
  campaign.windows.push_back(report.windows_in_flight);
  campaign.faults_each.push_back(report.faults_total);
  campaign.steps.push_back(int(report.steps));
}

std::string quartiles(const char* name, const std::vector<int>& sorted) {
  const auto at = [&](std::size_t percent) { return sorted[(sorted.size() - 1) * percent / 100]; };
  return fmt::format("{:<20}{:>8}{:>8}{:>8}{:>8}{:>8}\n", name, at(0), at(25), at(50), at(75),
                     at(100));
}

std::string list(const char* title, const std::map<std::string, std::uint64_t>& counts) {
  std::string text = fmt::format("{}:", title);
  for (const auto& [name, count] : counts)
    text += fmt::format(" {} {},", name, count);
  text.back() = '\n';
  return text;
}

} // namespace

Campaign run_campaign(const CampaignOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Campaign campaign;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::size_t> failed{0};
  const auto work = [&] {
    for (std::uint64_t n = next++; n < options.runs && failed < options.failures_max; n = next++) {
      const std::uint64_t seed = options.first + n;
      const Report report =
          simulate(seed, draw_plan(seed, options.elsewhere), {.elsewhere = options.elsewhere});
      failed += report.failed();
      const std::lock_guard lock(mutex);
      add(campaign, report);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < options.threads; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads)
    thread.join();
  std::ranges::sort(campaign.failing);
  if (campaign.failing.size() > seeds_kept)
    campaign.failing.resize(seeds_kept);
  for (auto* values : {&campaign.requests, &campaign.tokens, &campaign.windows,
                       &campaign.faults_each, &campaign.steps})
    std::ranges::sort(*values);
  campaign.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return campaign;
}

std::string Campaign::text() const {
  if (runs == 0)
    return {};
  return fmt::format("{:<20}{:>8}{:>8}{:>8}{:>8}{:>8}\n", "per run", "least", "25 %", "median",
                     "75 %", "most") +
         quartiles("requests", requests) + quartiles("tokens", tokens) +
         quartiles("windows in flight", windows) + quartiles("faults", faults_each) +
         quartiles("messages, timers", steps) + list("faults", faults) + list("ends", ends) +
         list("probes", probes);
}

} // namespace paceline::testing
