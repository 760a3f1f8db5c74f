// What is drafted for whom.
#include "scheduling/draft_planning.hpp"
#include "tests/scheduling/scheduler_world.hpp"

#include <doctest/doctest.h>
#include <memory>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

/// The first of these sequences may say so many tokens, the others many.
Sequences sequences_of(int first_says) {
  Sequences sequences;
  for (const SequenceId id : {1, 2, 3}) {
    speculation::SequenceSpec spec;
    spec.id = id;
    spec.prompt_tokens = 4;
    spec.max_tokens = id == 1 ? first_says : 100;
    Sequence& s = sequences.add(std::make_shared<speculation::SequenceSpec>(std::move(spec)));
    sequences.leave_queue(s);
    s.log = std::make_shared<speculation::TokenLog>(Tokens(4, 7), 200);
    s.phase = Sequence::Phase::running;
  }
  return sequences;
}

} // namespace

TEST_CASE("rows of a step are shared by those whose outputs have room for a window") {
  for (const int says : {1, 2, 3}) {
    CAPTURE(says);
    SchedulerConfig config = drafting(SpeculationMode::sync, 1);
    config.policy.window.reset();
    Sequences sequences = sequences_of(says);
    EpochMint epochs(1);
    StepCost cost;
    cost.observe(3, 12, 10ms);
    const DraftHealth health(true, {});
    DraftPlanning planning(config, sequences, epochs, cost, health);
    std::vector<Sequence*> decoding;
    for (auto& [id, s] : sequences)
      decoding.push_back(&s);
    planning.share_windows(decoding, 0);
    CHECK(sequences.find(1)->share.has_value() == (says > 2));
    CHECK(sequences.find(2)->share->window > 0);
    CHECK(sequences.find(3)->share->window > 0);
  }
}

TEST_CASE("a window that is drafted ahead costs what it takes longer than a step") {
  // What several sequences get in `overlap` of a draft whose tokens come true, by its cost.
  const auto window_at = [](double cost_ratio) {
    SchedulerConfig config = drafting(SpeculationMode::overlap, 1);
    config.policy.window.reset();
    config.policy.prior_acceptance = 0.95;
    config.policy.prior_cost_ratio = cost_ratio;
    Sequences sequences = sequences_of(100);
    EpochMint epochs(1);
    StepCost cost;
    for (const int rows : {3, 60}) // rows of windows cost nothing
      cost.observe(rows, 12, 10ms);
    const DraftHealth health(true, {});
    DraftPlanning planning(config, sequences, epochs, cost, health);
    std::vector<Sequence*> decoding;
    for (auto& [id, s] : sequences)
      decoding.push_back(&s);
    planning.share_windows(decoding, 0);
    return sequences.find(1)->share->window;
  };
  CHECK(window_at(0.05) == 16);
  CHECK(window_at(0.3) == 2); // a step covers one
  CHECK(window_at(0.9) == 1);
}
