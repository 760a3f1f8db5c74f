#include "tests/fault/traffic.hpp"
#include "tests/support/requests.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <thread>
#include <unistd.h>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

class Traffic {
public:
  explicit Traffic(const TrafficPlan& plan)
      : plan_(plan), random_(plan.seed), requests_(live_requests(plan.max_tokens)),
        expected_(undisturbed(requests_)), engine_(live_options()), streams_(requests_.size()) {}

  TrafficReport run() {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < streams_.size(); ++i)
      open(i);
    while (report_.kills < plan_.kills || seconds_since(begin) < plan_.seconds) {
      await_tokens(std::uint64_t(random_() % std::uint64_t(2 * plan_.tokens_per_kill)) + 1);
      const auto died = Clock::now();
      if (!engine_.kill(Part(random_() % parts)))
        continue;
      ++report_.kills;
      await_all_move_on();
      report_.recoveries.push_back(seconds_since(died));
      if (!warm() && report_.kills >= plan_.kills / 10 &&
          seconds_since(begin) >= plan_.seconds / 10)
        report_.before = quiet_footprint();
    }
    report_.after = quiet_footprint();
    const auto pages_held = [this] {
      report_.metrics = engine_.metrics();
      return report_.metrics.kv_pages_used + report_.metrics.kv_pages_quarantined > 0;
    };
    int patience = 5000; // lanes let go of the last ones when they get to it
    await([&] { return !pages_held() || --patience == 0; }, false);
    std::ranges::sort(report_.recoveries);
    return std::move(report_);
  }

private:
  struct Stream {
    std::shared_ptr<LiveAnswer> answer;
    std::uint64_t id = 0;
    std::size_t cancel_at = 0; ///< Tokens; 0: never.
    bool cancelled = false;
  };

  void open(std::size_t index) {
    Stream& s = streams_[index];
    s = {};
    if (double(random_() >> 11) * 0x1p-53 < plan_.cancelled)
      s.cancel_at = 1 + random_() % std::size_t(plan_.max_tokens);
    s.answer = std::make_shared<LiveAnswer>([this](const Event& event) {
      if (const auto* delta = std::get_if<Delta>(&event))
        tokens_ += delta->tokens.size();
      const std::lock_guard lock(mutex_);
      news_.notify_all();
    });
    engine_.submit(requests_[index], s.answer);
    s.id = engine_.last_request();
  }

  /// Looks after the streams: cancels, checks, and opens the next.
  void tend(bool reopen) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      Stream& s = streams_[i];
      if (!s.answer)
        continue;
      if (s.cancel_at > 0 && !s.cancelled && s.answer->count() >= s.cancel_at) {
        s.cancelled = true;
        engine_.cancel(s.id);
      }
      if (!s.answer->ended())
        continue;
      check(i);
      if (reopen)
        open(i);
      else
        s.answer = nullptr;
    }
  }

  void check(std::size_t index) {
    const Stream& s = streams_[index];
    const Finished& end = s.answer->wait();
    const auto& tokens = s.answer->tokens();
    const auto& expected = expected_[index];
    const bool prefix = tokens.size() <= expected.size() &&
                        std::equal(tokens.begin(), tokens.end(), expected.begin());
    const bool cut = s.cancelled && end.reason == FinishReason::cancelled;
    if (s.answer->ends().size() != 1 ||
        !(cut || end.reason == FinishReason::length || end.reason == FinishReason::stop)) {
      ++report_.lost;
      problem(fmt::format("request {}: {}", index,
                          end.error ? end.error->text() : paceline::to_string(end.reason)));
    } else if (!prefix || (!cut && tokens.size() != expected.size())) {
      ++report_.different;
      problem(fmt::format("request {}: after {} tokens", index, tokens.size()));
    }
    ++(cut ? report_.cancelled : report_.requests);
  }
  void problem(std::string what) {
    if (report_.first_problem.empty())
      report_.first_problem = std::move(what);
  }

  bool warm() const { return report_.before.threads > 0; }

  template <class Reached>
  void await(const Reached& reached, bool reopen = true) {
    while (!reached()) {
      {
        std::unique_lock lock(mutex_);
        news_.wait_for(lock, 1ms); // or what came just before
      }
      tend(reopen);
    }
  }
  void await_tokens(std::uint64_t more) {
    const std::uint64_t goal = tokens_ + more;
    await([&] { return tokens_ >= goal; });
  }
  void await_all_move_on() {
    std::vector<std::pair<std::uint64_t, std::size_t>> before;
    for (const Stream& s : streams_)
      before.emplace_back(s.id, s.answer->count());
    await([&] {
      for (std::size_t i = 0; i < streams_.size(); ++i)
        if (streams_[i].id == before[i].first && streams_[i].answer->count() == before[i].second)
          return false;
      return true;
    });
  }

  /// Lets all streams end, reads, and opens them again.
  Footprint quiet_footprint() {
    await(
        [this] { return std::ranges::all_of(streams_, [](const Stream& s) { return !s.answer; }); },
        false);
    Footprint now = footprint();
    // Lanes of the dead close on threads of their own.
    await([&] { return (now = footprint()).threads <= report_.before.threads || !warm(); }, false);
    for (std::size_t i = 0; i < streams_.size() && !warm(); ++i)
      open(i);
    return now;
  }

  const TrafficPlan plan_;
  std::mt19937_64 random_;
  const std::vector<Request> requests_;
  const std::vector<std::vector<TokenId>> expected_;
  std::atomic<std::uint64_t> tokens_{0};
  std::mutex mutex_;
  std::condition_variable news_;
  TrafficReport report_;
  LiveEngine engine_;
  std::vector<Stream> streams_;
};

} // namespace

Footprint footprint() {
  Footprint now;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Threads:"))
      now.threads = std::stoi(line.substr(8));
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  statm >> all >> resident;
  now.resident_bytes = resident * std::size_t(sysconf(_SC_PAGESIZE));
  for (const auto& handle : std::filesystem::directory_iterator("/proc/self/fd"))
    now.handles += !handle.path().empty();
  return now;
}

EngineOptions live_options() {
  EngineOptions options;
  options.speculation = SpeculationMode::overlap;
  options.threads = 1; // a team of two waits for each other on a machine that does other work
  options.max_model_len = 512;
  options.faults.restart_pause_max = 4ms;
  options.faults.restarts_max = 1'000'000;
  options.faults.recomputations_max = 1000;
  return options;
}

std::vector<Request> live_requests(int max_tokens) {
  std::vector<Request> all;
  for (const char* prompt :
       {"def", "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(",
        "import os\nimport sys\n\ndef main():\n", "for i in range(10):\n    print(",
        "def mean(values):\n    \"\"\"Return the arithmetic mean.\"\"\"\n    total = 0\n    for ",
        "if __name__ == \"__main__\":\n", "try:\n    import json\nexcept", "def add(a, b):\n"})
    for (const bool greedy : {true, false})
      all.push_back(
          repeatable(prompt, max_tokens,
                     greedy ? std::nullopt : std::optional<std::uint64_t>(5 + all.size())));
  return all;
}

std::vector<std::vector<TokenId>> undisturbed(const std::vector<Request>& requests) {
  EngineOptions options = live_options();
  options.speculation = SpeculationMode::off;
  LiveEngine engine(options);
  std::vector<std::shared_ptr<LiveAnswer>> answers;
  for (const Request& request : requests)
    answers.push_back(engine.submit(request));
  std::vector<std::vector<TokenId>> all;
  all.reserve(answers.size());
  for (const auto& answer : answers) {
    answer->wait();
    all.push_back(answer->tokens());
  }
  return all;
}

TrafficReport run_traffic(const TrafficPlan& plan) {
  return Traffic(plan).run();
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[std::size_t(double(sorted.size() - 1) * share)];
}

std::string TrafficReport::text() const {
  return fmt::format(
      "{} kills, {} requests ended, {} were cancelled; {} outputs differ, {} requests lost {}\n"
      "recovery of all streams: p50 {:.1f} ms, p99 {:.1f} ms; {} restarts, {} recomputations, {} "
      "stalls\n"
      "pages used {}, in quarantine {}; memory {:.1f} MiB before, {:.1f} MiB after; "
      "threads {}, {}; handles {}, {}\n",
      kills, requests, cancelled, different, lost, first_problem, 1e3 * percentile(recoveries, 0.5),
      1e3 * percentile(recoveries, 0.99), metrics.restarts, metrics.recomputations, metrics.stalls,
      metrics.kv_pages_used, metrics.kv_pages_quarantined, double(before.resident_bytes) / 0x1p20,
      double(after.resident_bytes) / 0x1p20, before.threads, after.threads, before.handles,
      after.handles);
}

} // namespace paceline::testing
