// What is drafted for whom.
#include "scheduling/draft_planning.hpp"
#include "scheduling/round_meter.hpp"
#include "tests/sampling/toy_constraint.hpp"
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

namespace {

/// The first of three sequences says something in a form.
Sequences one_forms() {
  Sequences sequences = sequences_of(100);
  auto spec = *sequences.find(1)->spec;
  spec.warping.constraint = std::make_shared<ToyConstraint>(8, 1);
  sequences.find(1)->spec = std::make_shared<speculation::SequenceSpec>(std::move(spec));
  return sequences;
}

} // namespace

TEST_CASE(
    "a request that asks for a mode has the window of that mode, whatever the engine follows") {
  SchedulerConfig config = drafting(SpeculationMode::automatic, 1);
  config.policy.window.reset();
  config.policy.early_ends = true;
  Sequences sequences = sequences_of(100);
  EpochMint epochs(1);
  StepCost cost;
  for (const int rows : {1, 2, 4, 8, 16})
    cost.observe(rows, 12, 10ms);
  const DraftHealth health(true, {});
  DraftPlanning planning(config, sequences, epochs, cost, health);
  speculation::RoundObservation round;
  round.mode = SpeculationMode::sync;
  round.sequences = 1;
  round.window = 4;
  round.rows = 5;
  round.tokens = round.judged = 2;
  round.accepted = 1;
  round.draft_step_seconds = 0.001;
  round.round_seconds = 0.014;
  for (int i = 0; i < 8; ++i)
    planning.observe(round);
  Sequence& asks = *sequences.find(1);
  CHECK(planning.plan_for(asks).mode == SpeculationMode::sync);
  CHECK(planning.plan_for(asks).window == 16); // its windows end early
  auto spec = *asks.spec;
  spec.speculation = SpeculationMode::overlap;
  asks.spec = std::make_shared<speculation::SequenceSpec>(std::move(spec));
  CHECK(planning.plan_for(asks).mode == SpeculationMode::overlap);
  CHECK(planning.plan_for(asks).window < 16);
  CHECK(planning.plan_for(asks).lookahead == planning.plan_for(asks).window + 1);
}

TEST_CASE("a form drafts whatever the drafters do, and lengthens windows that are not fixed") {
  SchedulerConfig config = drafting(SpeculationMode::sync, 3);
  config.forms_draft = true;
  config.drafters = {"model"};
  Sequences sequences = one_forms();
  EpochMint epochs(1);
  StepCost cost;
  DraftHealth health(true, {});
  health.replaced_by(1); // it is there
  const auto plan_of = [&](const SchedulerConfig& by, SequenceId id) {
    return DraftPlanning(by, sequences, epochs, cost, health).plan_for(*sequences.find(id));
  };
  CHECK(plan_of(config, 1).form_window == 3); // a fixed window stays as it is
  CHECK(plan_of(config, 2).form_window == 0);
  config.policy.window.reset();
  CHECK(plan_of(config, 1).form_window == 16);
  CHECK(plan_of(config, 1).window < 16);
  CHECK(!plan_of(config, 1).form_alone);
  config.policy.mode = SpeculationMode::off; // as it is chosen where drafts do not pay
  CHECK(plan_of(config, 1).form_alone);
  CHECK(plan_of(config, 1).window == 16);
  CHECK(plan_of(config, 2).mode == SpeculationMode::off);
  config.policy.mode = SpeculationMode::sync;
  config.drafters.clear();
  CHECK(plan_of(config, 1).form_alone);
  CHECK(plan_of(config, 2).mode == SpeculationMode::off);
  config.drafters = {"model"};
  for (int round = 0; round < 100; ++round) // windows of which nothing comes true
    sequences.find(1)->health.observe(4, 0, 4);
  CHECK(!sequences.find(1)->health.pays());
  CHECK(plan_of(config, 1).form_alone);
  CHECK(DraftPlanning(config, sequences, epochs, cost, health).speculates(*sequences.find(1), {}));
}

TEST_CASE("what a form wrote teaches nothing of those who draft") {
  SchedulerConfig config = drafting(SpeculationMode::sync, 1);
  config.policy.window.reset();
  config.forms_draft = true;
  config.drafters = {"model"};
  Sequences sequences = one_forms();
  EpochMint epochs(1);
  StepCost cost;
  const DraftHealth health(true, {});
  DraftPlanning planning(config, sequences, epochs, cost, health);
  Verdict verdict;
  verdict.window = 9;
  verdict.judged = 8;
  verdict.accepted = 7;
  verdict.formed = 6;
  verdict.formed_judged = verdict.formed_accepted = 5;
  verdict.tokens = Tokens(8, 7);
  planning.learn(*sequences.find(1), verdict);
  CHECK(sequences.find(1)->acceptance.weight == 3);
  CHECK(sequences.find(1)->acceptance.value == doctest::Approx(2.0 / 3));

  InFlightBatch flight;
  flight.batch.entries.resize(1);
  flight.batch.entries[0].length = 1;
  flight.mode = SpeculationMode::sync;
  Verdicts verdicts;
  verdicts.sequences = {verdict};
  base::Telemetry telemetry;
  const auto round = RoundMeter().end(flight, verdicts, {}, telemetry);
  CHECK(round.window == 3);
  CHECK(round.judged == 3);
  CHECK(round.accepted == 2);
  CHECK(round.formed == 6);
  CHECK(round.tokens == 3);
}

TEST_CASE("a step of overlap that goes without a window is one of overlap if it drafts the next") {
  InFlightBatch flight;
  flight.mode = SpeculationMode::overlap;
  flight.batch.entries.resize(1);
  Verdicts verdicts;
  verdicts.sequences.resize(1);
  base::Telemetry telemetry;
  const auto mode = [&] { return RoundMeter().end(flight, verdicts, {}, telemetry).mode; };
  CHECK(mode() == SpeculationMode::off);
  flight.batch.entries[0].next.chain = std::make_shared<speculation::Chain>(1);
  flight.batch.entries[0].next.lookahead = 3;
  CHECK(mode() == SpeculationMode::overlap);
  flight.mode = SpeculationMode::sync;
  CHECK(mode() == SpeculationMode::off);
}
