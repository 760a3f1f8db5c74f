// The sampler alone: a lane that only keeps what is submitted, a mock draft and a mock scheduler.
#include "actors/sampler.hpp"
#include "execution/forward_step.hpp"
#include "tests/actors/mail.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::execution;
using namespace paceline::testing;

namespace {

/// Runs nothing by itself.
struct StillLane final : gpu::Lane {
  bool submit(std::shared_ptr<gpu::Step> step) override {
    if (full)
      return false;
    steps.push_back(std::move(step));
    return true;
  }
  const std::string& name() const override { return label; }

  std::string label = "still";
  bool full = false;
  std::vector<std::shared_ptr<gpu::Step>> steps;
};

struct Inbox final : DraftInbox {
  void post(const Frontiers& frontiers) override { posted.push_back(frontiers); }
  std::vector<Frontiers> posted;
};

struct SamplerWorld {
  SamplerWorld() {
    SamplerParts parts;
    parts.vocabulary = 4;
    parts.telemetry = std::make_shared<base::Telemetry>();
    sampler = simulation.spawn<Sampler>(parts);
    draft.mail->when<Borrow, Lent>([this](const Borrow&) { return Lent{inbox}; });
  }
  void wire(const DraftActor& drafting) {
    ActorHandles handles;
    handles.version = ++versions;
    handles.scheduler = scheduler.actor;
    handles.draft = drafting;
    simulation.tell(sampler, handles);
    simulation.run();
  }
  /// A pass that failed: its verification has nothing to judge and says so.
  void pass(std::uint64_t batch) {
    auto pass = std::make_shared<ForwardPass>();
    pass->batch.id = batch;
    pass->retirement.error = Error{ErrorCode::internal, "the lane failed", ""};
    simulation.tell(sampler, Logits{pass, lane});
    simulation.run();
  }

  Simulation simulation{0, exact_order};
  Mock<SchedulerActor> scheduler{simulation};
  Mock<DraftActor> draft{simulation};
  std::shared_ptr<StillLane> lane = std::make_shared<StillLane>();
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  SamplerActor sampler;
  std::uint64_t versions = 0;
};

} // namespace

TEST_CASE("verification is enqueued behind the pass, and its verdicts go to the scheduler") {
  SamplerWorld world;
  world.wire({});
  world.pass(7);
  REQUIRE(world.lane->steps.size() == 1);
  CHECK(world.scheduler.mail->empty()); // the lane has not got there
  gpu::Step& step = *world.lane->steps.front();
  CHECK(step.prepare(world.simulation.now()) == gpu::Step::Next::done);
  step.retire({.completed = true, .error = {}, .begin = {}, .end = {}, .busy = {}});
  const auto verdicts = world.scheduler.take<Verdicts>();
  CHECK(verdicts.batch == 7);
  REQUIRE(verdicts.error);
  CHECK(verdicts.error->message == "the lane failed");
}

TEST_CASE("the draft's inbox is borrowed once for each draft") {
  SamplerWorld world;
  world.wire(world.draft.actor);
  world.draft.take<Borrow>();
  world.wire(world.draft.actor); // somebody else was restarted
  CHECK(world.draft.mail->empty());
  Mock<DraftActor> successor{world.simulation};
  world.wire(successor.actor);
  successor.take<Borrow>();
}

TEST_CASE("the draft is told through the sampler while it has not lent its inbox") {
  SamplerWorld world;
  Frontiers news;
  news.sequences.resize(3);
  world.simulation.tell(world.sampler, news); // of nobody yet
  world.wire(world.draft.actor);
  world.draft.take<Borrow>();
  world.simulation.tell(world.sampler, news);
  CHECK(world.draft.take<Frontiers>().sequences.size() == 3);
}

TEST_CASE("a pre-enqueued pass is enqueued behind the verification before it") {
  SamplerWorld world;
  world.wire({});
  world.pass(7);
  auto pre_enqueued = std::make_shared<ForwardPass>();
  pre_enqueued->batch.id = 8;
  pre_enqueued->batch.after = 7;
  const auto step = std::make_shared<ForwardStep>(Stage(), pre_enqueued, nullptr);
  world.simulation.tell(world.sampler, Logits{pre_enqueued, world.lane, step});
  world.simulation.run();
  REQUIRE(world.lane->steps.size() == 3);
  CHECK(world.lane->steps[0]->name() == "verify");
  CHECK(world.lane->steps[1] == step);
  CHECK(world.lane->steps[2]->name() == "verify");
}

TEST_CASE("a lane that takes no more work ends the sampler, so that it is started again") {
  SamplerWorld world;
  world.wire({});
  world.lane->full = true;
  world.pass(1);
  CHECK_FALSE(world.simulation.ask<Pong>(world.sampler, Ping{}));
}
