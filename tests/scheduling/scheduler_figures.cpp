// What the scheduler itself takes of each step, all of it: taking verdicts in, choosing windows,
// building the batch, commits, pages and waits.
//   scheduler_figures [STEPS]     (default 300 a line)
// The plain scheduler, on one thread, with neighbours that answer at once and are not timed: a
// draft that is right four times in five, and a target whose step takes 20 ms and 10 us a row, so
// that many rows are worth their time. Medians, in turn, and how time grows with sequences.
#include "scheduling/round.hpp"
#include "scheduling/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <variant>
#include <vector>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

constexpr int page_tokens = 16;
constexpr int prompt_tokens = 16;
constexpr int steps_before = 64; // until what steps cost is known
constexpr double acceptance = 0.8;

base::Duration target_time(int rows) {
  return 20ms + rows * 10us;
}

SchedulerConfig config_of(SpeculationMode mode, int sequences, int tokens) {
  SchedulerConfig config;
  config.policy.mode = mode;
  config.policy.lookahead = Lookahead::chain;
  config.has_draft = true;
  config.draft_pool = 1;
  config.max_model_len = prompt_tokens + tokens;
  config.max_num_seqs = sequences;
  config.logit_rows = sequences * (config.policy.window_limit + 1);
  config.telemetry = std::make_shared<base::Telemetry>();
  return config;
}

KvGrant grant(SequenceId sequence, int capacity) {
  static const auto page = std::make_shared<gpu::Page>();
  const std::vector<gpu::PageRef> pages(std::size_t(capacity / page_tokens + 1), page);
  const auto table = gpu::PageTable::extend(nullptr, page_tokens, pages);
  return {.sequence = sequence, .granted = true, .tables = {table, table}, .cached = {0, 0}};
}

/// The draft's lane: all that it may write is there.
void draw(speculation::Chain& chain, int end) {
  chain.bind(end);
  chain.spent({}, {1ms, {}});
  for (int position = chain.drawn(); position < end; ++position)
    chain.put(position, 5, nullptr);
}

/// A scheduler under load: sequences that decode, and others that wait.
class Load {
public:
  Load(SpeculationMode mode, int sequences, int waiting, int steps)
      : tokens_(steps * (speculation::PolicyOptions().window_limit + 1)),
        scheduler_(config_of(mode, sequences, tokens_)) {
    facts_.emplace_back([this] { return scheduler_.peers_changed({1, 1, 1, 1, 1}, now_); });
    for (int id = 1; id <= sequences + waiting; ++id)
      facts_.emplace_back([this, id] { return scheduler_.admit(request(SequenceId(id)), now_); });
  }

  /// Microseconds that the scheduler takes for the next step.
  double step() {
    using Clock = std::chrono::steady_clock;
    Clock::duration taken{};
    while (!facts_.empty()) {
      const auto fact = std::move(facts_.front());
      facts_.pop_front();
      const auto begin = Clock::now();
      auto actions = fact();
      taken += Clock::now() - begin;
      for (Action& action : actions)
        std::visit([this](auto& what) { act(what); }, action);
    }
    facts_.emplace_back([this, verdicts = judge()] { return scheduler_.judged(verdicts, now_); });
    return std::chrono::duration<double, std::micro>(taken).count();
  }

private:
  Admit request(SequenceId id) const {
    auto spec = std::make_shared<speculation::SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = prompt_tokens;
    spec->max_tokens = tokens_;
    return {spec, std::vector<TokenId>(prompt_tokens, 3)};
  }

  /// The target's lane. Whatever was to be drafted under this step is.
  Verdicts judge() {
    Verdicts verdicts;
    verdicts.batch = batch_.id;
    for (const BatchEntry& entry : batch_.entries) {
      verdicts.rows += entry.length - entry.feed.cached + entry.round.window;
      verdicts.sequences.push_back(judge(entry));
    }
    verdicts.busy = target_time(verdicts.rows);
    now_ += verdicts.busy;
    return verdicts;
  }

  Verdict judge(const BatchEntry& entry) {
    Verdict verdict;
    verdict.sequence = entry.spec->id;
    verdict.epoch = entry.epoch;
    verdict.cached = entry.length;
    if (!entry.round.judges)
      return verdict;
    verdict.window = entry.round.window;
    if (const auto& chain = entry.round.chain)
      draw(*chain, chain->limit());
    verdict.had_lookahead = entry.round.chain && entry.round.judge_lookahead &&
                            entry.round.chain->bound() > entry.length + verdict.window;
    const int judged = verdict.window + int(verdict.had_lookahead);
    while (verdict.accepted < judged && std::bernoulli_distribution(acceptance)(random_))
      ++verdict.accepted;
    verdict.judged = std::min(judged, verdict.accepted + 1);
    const bool hit = verdict.had_lookahead && verdict.accepted == judged;
    verdict.hit = hit ? Hit::chain : Hit::none;
    verdict.tokens.assign(std::size_t(verdict.accepted + int(!hit)), 7);
    verdict.sources.assign(verdict.tokens.size(), TokenSource::draft);
    turn_over(entry, verdict);
    return verdict;
  }

  void act(Batch& batch) {
    if (batch.after == 0)
      batch_ = std::move(batch);
  }
  void act(AskReserve& ask) {
    facts_.emplace_back(
        [this, asked = ask.asked, given = grant(ask.wanted.sequence, ask.wanted.capacity)] {
          return scheduler_.reserved(given.sequence, asked, given, now_);
        });
  }
  void act(AskGrow& ask) {
    facts_.emplace_back(
        [this, residency = ask.residency, given = grant(ask.wanted.sequence, ask.wanted.capacity)] {
          return scheduler_.grown(given.sequence, residency, given, now_);
        });
  }
  void act(AwaitWindows& wait) {
    for (const auto& [chain, position] : wait.windows)
      draw(*chain, position);
    facts_.emplace_back(
        [this, ticket = wait.ticket] { return scheduler_.windows_ready(ticket, now_); });
  }
  template <class Other>
  void act(Other&) {}

  int tokens_;
  base::TimePoint now_{};
  std::mt19937 random_{1};
  Batch batch_;
  std::deque<std::function<Scheduler::Actions()>> facts_;
  Scheduler scheduler_;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
  return values[values.size() / 2];
}

double microseconds(SpeculationMode mode, int sequences, int waiting, int steps) {
  Load load(mode, sequences, waiting, steps_before + steps);
  for (int i = 0; i < steps_before; ++i)
    load.step();
  std::vector<double> taken;
  for (int i = 0; i < steps; ++i)
    taken.push_back(load.step());
  return median(std::move(taken));
}

} // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  if (steps < 1) {
    fmt::print(stderr, "usage: scheduler_figures [STEPS]\n");
    return 2;
  }
  using enum SpeculationMode;
  fmt::print("{:>9} {:>7} {:>27} {:>27} {:>27}\n", "sequences", "waiting", "off", "sync",
             "overlap");
  for (const auto& [sequences, waiting] :
       {std::pair(64, 0), {64, 4096}, {128, 0}, {256, 0}, {512, 0}}) {
    fmt::print("{:>9} {:>7}", sequences, waiting);
    for (const auto mode : {off, sync, overlap}) {
      const double us = microseconds(mode, sequences, waiting, steps);
      fmt::print(" {:>8.1f} us, {:.3f} a sequence", us, us / sequences);
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}
