#include "tests/scheduling/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

SchedulerConfig by_deadline() {
  SchedulerConfig config = plain();
  config.scheduling = SchedulingPolicy::deadline;
  config.max_num_seqs = 1;
  return config;
}

speculation::SequenceSpec asks(speculation::SequenceId id, int prompt, int output,
                               std::optional<base::Duration> deadline) {
  speculation::SequenceSpec spec;
  spec.id = id;
  spec.prompt_tokens = prompt;
  spec.max_tokens = output;
  spec.deadline = deadline;
  return spec;
}

/// A scheduler that has seen what steps take: 10 ms each, whatever their rows.
struct TimedWorld : SchedulerWorld {
  TimedWorld() : SchedulerWorld(by_deadline()) {
    admit(asks(1, 16, 2, {}));
    go_on(batch(), 10ms);
    go_on(batch(), 10ms);
    run();
    facade.clear();
  }
};

} // namespace

TEST_CASE("a request that cannot make its deadline is refused at once, with the reason") {
  TimedWorld world;
  world.kv.clear();
  world.admit(asks(2, 160, 10, 50ms)); // ten steps for the prompt alone
  const auto refused = world.facade.take<Failed>();
  CHECK(refused.sequence == 2);
  CHECK(refused.error.code == ErrorCode::deadline);
  CHECK(refused.error.message == "the request would take 0.1 s and has 0.05 s left");
  CHECK(world.kv.empty());
  world.admit(asks(3, 160, 10, 150ms));
  CHECK(world.batch().entries.at(0).spec->id == 3);
}

TEST_CASE("tokens that the answer must have are counted, others are not") {
  TimedWorld world;
  world.admit(asks(2, 16, 900, 100ms)); // it may end with its first token
  CHECK(world.batch().entries.at(0).spec->id == 2);
  speculation::SequenceSpec long_one = asks(3, 16, 900, 100ms);
  long_one.warping.min_tokens = 50;
  world.admit(long_one);
  CHECK(world.facade.take<Failed>().sequence == 3);
}

TEST_CASE("who waits until it is too late is refused when it would be its turn") {
  TimedWorld world;
  world.admit(asks(2, 16, 100, 200ms));
  const Batch under_way = world.batch();
  world.admit(asks(3, 160, 10, 250ms));
  world.run_until([facts = 0]() mutable { return facts++ > 0; });
  CHECK(world.facade.empty());
  world.now += 200ms;
  world.answer(under_way, {SchedulerWorld::verdict(under_way.entries.at(0), {0})}, 10ms);
  CHECK(world.facade.take<Failed>().sequence == 3);
}

TEST_CASE("nobody is refused before a step was timed, nor by another policy") {
  SchedulerConfig config = by_deadline();
  config.step_prior = {.weights = 0.010, .row = 0.001}; // which is no measurement
  SchedulerWorld untimed(config);
  untimed.admit(asks(1, 160, 10, 1ms));
  CHECK(untimed.batch().entries.at(0).spec->id == 1);
}
