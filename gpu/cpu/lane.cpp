#include "gpu/cpu/lane.hpp"

#include "gpu/cpu/team.hpp"
#include "gpu/thread_lane.hpp"

#include <fmt/format.h>
#include <system_error>

namespace paceline::gpu::cpu {
namespace {

class TeamExecutor final : public Executor {
public:
  explicit TeamExecutor(LaneOptions options)
      : team_(*options.kernels, std::move(options.cores), options.shard_threads) {
    team_.start();
  }
  void enter() override { team_.enter(); }
  bool rouse() override {
    team_.rouse();
    return true;
  }
  void launch(Step& step, const Work&) override { team_.run(step); }

private:
  Team team_;
};

} // namespace

Result<std::unique_ptr<Lane>> open_lane(LaneOptions options) {
  const std::size_t threads = options.cores.size();
  try {
    auto team = std::make_unique<TeamExecutor>(options);
    return make_thread_lane({options.name, options.time, options.trace}, std::move(team));
  } catch (const std::system_error&) {
    return fail(ErrorCode::unavailable, fmt::format("cannot start {} threads", threads),
                "ask for fewer with EngineOptions::threads, or raise the limit of processes");
  }
}

} // namespace paceline::gpu::cpu
