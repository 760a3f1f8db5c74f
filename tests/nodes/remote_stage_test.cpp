// Which passes a stage on another machine takes.
#include "nodes/remote_stage.hpp"

#include "tests/actors/models_world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::execution;
using namespace paceline::messages;
using namespace paceline::nodes;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t named_by = 5; ///< The handles that name the stage first.

/// The second stage of two, whose node does not answer yet.
struct StageWorld : ModelWorld {
  StageWorld() {
    const auto models = models::make_scripted_stages(script, std::vector{device, device}).value();
    TargetModelParts parts{{models[0], device, pool}, 32, 8, closer, telemetry};
    parts.behind.push_back({models[1], device, pool});
    auto remote = std::make_shared<RemoteStageParts>();
    remote->places = {{{"node://somewhere", [](caf::actor_system&, const caf::actor&) {}}, {}}};
    remote->heartbeat = 1s;
    remote->patience = 60s;
    telemetry->time = clock;
    stage = simulation.spawn<RemoteStage>(std::move(remote), parts, std::size_t(1), named_by);
    ActorHandles handles;
    handles.version = named_by + 1; // those before come late
    handles.stages.resize(3);       // a stage here follows, whom nobody tells
    simulation.tell(stage, handles);
  }
  ~StageWorld() {
    simulation.kill(stage);
    simulation.run_until([] { return false; }, 50);
  }
  /// A pass of a scheduler that goes by these handles, which the first stage has handed over.
  std::shared_ptr<ForwardPass> arrived(std::uint64_t id, std::uint64_t handles) {
    auto pass = std::make_shared<ForwardPass>(2);
    pass->batch.id = id;
    pass->batch.handles = handles;
    pass->retirement.completed = true;
    simulation.tell(stage, StagePass{pass});
    simulation.run_until([] { return false; }, 50);
    pass->handovers[0].arrive();
    simulation.run_until([] { return false; }, 50);
    return pass;
  }

  RemoteStageActor stage;
};

} // namespace

TEST_CASE("a pass for the stage before this one fails, and one for this one waits for its node") {
  StageWorld world;
  const auto early = world.arrived(1, named_by - 1);
  REQUIRE(early->retirement.error); // what it goes on from was lost
  CHECK(early->retirement.error->message.find("was lost") != std::string::npos);
  CHECK_FALSE(early->retirement.completed);
  const auto pass = world.arrived(2, named_by);
  CHECK(pass->retirement.completed);
  CHECK_FALSE(pass->retirement.error);
}
