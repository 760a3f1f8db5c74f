// Modes on simulated devices over a grid of acceptance, draft cost, window and batch: a line each,
// for tools/modes_table.
//
//   simulated_grid [TOKENS]          every window of 1 to 8, and batches of 1, 4 and 16
//   simulated_grid [TOKENS] SEEDS    one sequence, low acceptances and cheap drafts too, each mode
//                                    with the window that theory has for it, for so many seeds
//   simulated_grid TOKENS SEEDS A C  the same of one acceptance and cost
#include "paceline/engine.hpp"
#include "sampling/theory.hpp"
#include "tools/overlap_model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <stdexcept>
#include <vector>

namespace {

using namespace paceline;

constexpr double target_ms = 10;
constexpr int windows = 8;

struct Cell {
  double a = 0;
  double c = 0;
  int batch = 1;
  int seed = 7;
};

struct Measured {
  double rate = 0; ///< Tokens per target step, all sequences together.
  double seconds = 0;
  double tokens = 0;
  double rounds = 0; ///< Of one sequence, on average.
  double hits = 0;
  SpeculationMode mode = SpeculationMode::off; ///< At the end.
};

Measured measure(const Cell& cell, SpeculationMode mode, std::optional<int> window, int tokens) {
  EngineOptions options;
  options.target = "scripted:vocabulary=4,memory=0,seed=1,context=1000000";
  options.drafters = {fmt::format("{},acceptance={}", options.target, cell.a)};
  options.devices = {fmt::format("sim:{}ms", target_ms)};
  options.draft_devices = {fmt::format("sim:{:.6f}ms", target_ms * cell.c)};
  options.lookahead = Lookahead::chain;
  options.speculation = mode;
  options.window = window;
  options.max_num_seqs = cell.batch;
  const int each = std::max(tokens / cell.batch, 1000);
  options.max_model_len = each + 1;
  options.virtual_time = true;
  auto engine = Engine::open(options);
  if (!engine)
    throw std::runtime_error(engine.error().text());
  std::vector<Stream> streams;
  for (int i = 0; i < cell.batch; ++i) {
    Request request;
    request.prompt_tokens = {0};
    request.max_tokens = each;
    request.ignore_eos = true;
    request.sampling.temperature = 1;
    request.sampling.seed = std::uint64_t(cell.seed + i);
    request.verify = VerifyRule::rejection;
    streams.push_back(engine->submit(request).value());
  }
  Measured all;
  for (Stream& stream : streams)
    while (const auto event = stream.next())
      if (const auto* end = std::get_if<Finished>(&*event)) {
        all.seconds = std::max(all.seconds, end->timing.decode_seconds);
        all.tokens += end->usage.completion_tokens - 1;
        all.rounds += double(end->speculation.rounds - 1) / cell.batch;
        all.hits += double(end->speculation.lookahead_hits) / cell.batch;
        all.mode = end->speculation.mode;
      }
  all.rate = all.tokens / all.seconds * target_ms / 1000;
  return all;
}

/// Rounds and hits as they fell: what the time should have been over what it was.
double over_time(const Measured& measured, double round_steps, double miss_steps) {
  const double steps =
      measured.rounds * round_steps + (measured.rounds - measured.hits) * miss_steps;
  return steps * target_ms / 1000 / measured.seconds;
}

void print(const Cell& cell, const char* mode, int window, double rate, double over) {
  std::printf("%d\t%g\t%g\t%s\t%d\t%.4f\t%.4f\n", cell.batch, cell.a, cell.c, mode, window, rate,
              over);
  std::fflush(stdout);
}

void run(const Cell& cell, int tokens) {
  print(cell, "off", 0, measure(cell, SpeculationMode::off, {}, 1000 * cell.batch).rate, 1);
  for (int window = 1; window <= windows; ++window) {
    Measured sync = measure(cell, SpeculationMode::sync, window, tokens);
    sync.hits = 0;
    print(cell, "sync", window, sync.rate, over_time(sync, 1, window * cell.c));
    const Measured overlap = measure(cell, SpeculationMode::overlap, window, tokens);
    double over = 0; // of several sequences at once there is no closed form
    if (cell.batch == 1 && (window + 1) * cell.c <= 1 + 1e-9) {
      over = over_time(overlap, 1, window * cell.c);
    } else if (cell.batch == 1) {
      const tools::OverlapModel model{.target_ms = target_ms,
                                      .draft_ms = target_ms * cell.c,
                                      .acceptance = cell.a,
                                      .window = window};
      over = 1000 / target_ms * overlap.rate / tools::simulate(model, 400'000, 1).tokens_per_second;
    }
    print(cell, "overlap", window, overlap.rate, over);
  }
  const Measured automatic = measure(cell, SpeculationMode::automatic, {}, 2 * tokens);
  print(cell, "auto", int(automatic.mode), automatic.rate, 0);
}

/// Where speculation pays, over what theory says of it (Leviathan et al. 2022, theorem 3.8).
void run_where_it_pays(const Cell& cell, int tokens) {
  namespace theory = sampling::theory;
  const int sync = theory::best_window_sync(cell.a, cell.c, 0, 2 * windows);
  const int overlap = theory::best_window_overlap(cell.a, cell.c, 0, 2 * windows);
  const double measured = measure(cell, SpeculationMode::sync, sync, tokens).rate;
  print(cell, "sync", sync, measured, measured / theory::sync_rate(cell.a, sync, cell.c, 1));
  const double ahead = measure(cell, SpeculationMode::overlap, overlap, tokens).rate;
  const double hit = theory::chain_hit(cell.a, overlap);
  print(cell, "overlap", overlap, ahead,
        ahead / theory::overlap_rate(cell.a, overlap, cell.c, 1, hit));
  const double best = std::max({1.0, measured, ahead});
  const Measured automatic = measure(cell, SpeculationMode::automatic, {}, tokens);
  print(cell, "auto", int(automatic.mode), automatic.rate, automatic.rate / best);
}

} // namespace

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? int(std::strtol(argv[1], nullptr, 10)) : 20'000;
  if (argc > 2) {
    const int seeds = int(std::strtol(argv[2], nullptr, 10));
    std::vector<double> acceptances{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
    std::vector<double> costs{0.01, 0.02, 0.05, 0.1, 0.2};
    if (argc > 4) {
      acceptances = {std::strtod(argv[3], nullptr)};
      costs = {std::strtod(argv[4], nullptr)};
    }
    for (int seed = 1; seed <= seeds; ++seed)
      for (const double a : acceptances)
        for (const double c : costs)
          run_where_it_pays({a, c, 1, 100 * seed}, tokens);
    return 0;
  }
  for (const int batch : {1, 4, 16})
    for (const double a : {0.6, 0.7, 0.8, 0.9, 0.95})
      for (const double c : {0.05, 0.1, 0.2, 0.3, 0.5})
        run({a, c, batch}, tokens);
}
