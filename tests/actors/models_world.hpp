// What tests of the model actors stand on: a scripted model on a simulated device, each alone.
#pragma once

#include "actors/system/timekeeper.hpp"
#include "base/telemetry.hpp"
#include "execution/lane_closer.hpp"
#include "models/synthetic/scripted.hpp"
#include "models/synthetic/scripted_rows.hpp"
#include "tests/actors/mail.hpp"
#include "tests/support/pools.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

/// A scripted model whose every pass takes 10 ms of virtual time, and pages for it.
struct ModelWorld {
  static constexpr int vocabulary = 8;
  static constexpr int page_tokens = 4;

  explicit ModelWorld(const std::string& device_name = "sim:10ms")
      : clock(std::make_shared<actors::ActorTimekeeper>(simulation.system())),
        device(gpu::open_device(device_name, {.threads = 1, .time = clock, .trace = {}}).value()),
        model(models::make_scripted(script, device).value()),
        pool(gpu::KvPool::create(*device, model->kv_shape(page_tokens), 64).value()),
        closer(std::make_shared<execution::LaneCloser>(true)) {}
  ~ModelWorld() {
    clock->stop();
    closer->close();
  }

  gpu::PageTableRef pages(int capacity) {
    std::vector<gpu::PageRef> more;
    for (int tokens = 0; tokens < capacity; tokens += page_tokens)
      more.push_back(pool->take());
    return gpu::PageTable::extend(nullptr, page_tokens, std::move(more));
  }
  static speculation::SequenceSpecRef greedy(speculation::SequenceId id, int prompt_tokens) {
    auto spec = std::make_shared<speculation::SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = prompt_tokens;
    spec->max_tokens = 100;
    return spec;
  }
  /// The likeliest token after each of the last few.
  TokenId likeliest(const Tokens& context) const {
    const auto row = models::scripted_row(script, context);
    return TokenId(std::max_element(row.begin(), row.end()) - row.begin());
  }

  models::ScriptedOptions script{.vocabulary = vocabulary, .memory = 2, .seed = 3};
  std::shared_ptr<base::Telemetry> telemetry = std::make_shared<base::Telemetry>();
  Simulation simulation{0, exact_order};
  std::shared_ptr<actors::ActorTimekeeper> clock;
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<gpu::KvPool> pool;
  std::shared_ptr<execution::LaneCloser> closer;
};

} // namespace paceline::testing
