#include "scheduling/limits.hpp"
#include "scheduling/request_mix.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

/// Weights are read in 50 ms; from 200 rows on the arithmetic takes longer, 250 us a row.
StepCost machine() {
  StepCost cost;
  for (int again = 0; again < 32; ++again)
    for (int rows = 1; rows <= 2048; rows += rows < 8 ? 1 : rows / 8)
      cost.observe(rows, 0, std::max<base::Duration>(50ms, rows * 250us));
  return cost;
}

double best_seconds(const StepCost& cost, const RequestWork& work, const StepShares& shares) {
  double least = 1e9;
  constexpr int tile = scheduling::limits::row_tile;
  for (int rows = (shares.sequences / tile + 1) * tile; rows <= 2048; rows += tile)
    least = std::min(least, seconds_of_request(cost, work, shares, rows));
  return least;
}

/// The same by a step at a time: places are taken up at once, and prompts are read one by one.
double simulated_seconds(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                         int rows_of_step) {
  std::vector<double> prompts(std::size_t(shares.sequences), work.prompt_rows);
  std::vector<double> answers(std::size_t(shares.sequences), work.rounds);
  double seconds = 0;
  int requests = 0;
  while (requests < 400) {
    double left = rows_of_step -
                  double(std::ranges::count_if(prompts, [](double rows) { return rows <= 0; }));
    int rows = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (prompts[i] > 0) {
        const double fed = std::min(prompts[i], left);
        prompts[i] -= fed;
        left -= fed;
        rows += int(fed);
      } else if (++rows, --answers[i] <= 0) {
        prompts[i] = work.prompt_rows;
        answers[i] = work.rounds;
        ++requests;
      }
    }
    seconds += base::seconds(*cost.predict(std::max(rows, 1), 0));
  }
  return seconds / requests;
}

} // namespace

TEST_CASE("chunks are best where a prompt lasts as long as the answers beside it") {
  const StepCost cost = machine();
  for (const auto& [length, places, ratio] :
       {std::tuple{1024, 18, 14}, {2048, 10, 30}, {3072, 6, 50}, {1024, 6, 50}, {2048, 6, 20}}) {
    const double rounds = double(length) / (ratio + 1);
    const RequestWork work{length - rounds, rounds};
    const StepShares shares{places, 1, 0};
    const int best = best_step_rows(cost, work, shares, 2048);
    CAPTURE(length);
    CAPTURE(best);
    CHECK(seconds_of_request(cost, work, shares, best) < 1.01 * best_seconds(cost, work, shares));
    CHECK(seconds_of_request(cost, work, shares, best) ==
          doctest::Approx(simulated_seconds(cost, work, shares, best)).epsilon(0.05));
  }
}

TEST_CASE("steps find the best chunks from a step of few rows and one of many") {
  const StepCost all = machine();
  for (const auto& [length, places, ratio] :
       {std::tuple{1024, 18, 14}, {2048, 10, 14}, {3072, 6, 30}}) {
    const double rounds = double(length) / (ratio + 1);
    const RequestWork work{length - rounds, rounds};
    const StepShares shares{places, 1, 0};
    StepCost seen;
    seen.observe(places, 0, *all.predict(places, 0));
    seen.observe(512, 0, *all.predict(512, 0));
    int chosen = 0;
    for (int step = 0; step < 24; ++step) {
      chosen = best_step_rows(seen, work, shares, 512);
      seen.observe(chosen, 0, *all.predict(chosen, 0));
    }
    CAPTURE(length);
    CAPTURE(chosen);
    CHECK(seconds_of_request(all, work, shares, chosen) < 1.02 * best_seconds(all, work, shares));
  }
}

TEST_CASE("of chunks that are as good the smallest is taken, and without knowledge the largest") {
  const RequestWork prompts{2000, 1};
  const StepShares alone{1, 1, 0};
  const int best = best_step_rows(machine(), prompts, alone, 2048);
  CHECK(best < 320); // where the arithmetic begins to count
  CHECK(best > 160);
  CHECK(best_step_rows(StepCost(), prompts, alone, 512) == 512);
  CHECK(best_step_rows(machine(), {}, alone, 512) == 512);
}

TEST_CASE("requests that ended teach how much of what others ask for becomes work") {
  RequestMix mix;
  CHECK(mix.expected({700, 30}).prompt_rows == 700);
  CHECK(mix.expected({700, 30}).rounds == 30);
  mix.ended({0, 0}, {700, 30}); // it was refused
  CHECK(mix.expected({700, 30}).rounds == 30);
  mix.ended({8, 16}, {8, 16}); // A short one says nothing of how long others are.
  CHECK(mix.expected({700, 30}).prompt_rows == doctest::Approx(700));
  CHECK(mix.expected({700, 30}).rounds == doctest::Approx(30));
  for (int i = 0; i < 400; ++i) // A quarter of their prompts is cached, and they end early.
    mix.ended({750, 200}, {1000, 4000});
  CHECK(mix.expected({2000, 4000}).prompt_rows == doctest::Approx(1500));
  CHECK(mix.expected({2000, 4000}).rounds == doctest::Approx(200));
}
