#include "tests/engine/world.hpp"

#include "actors/request_check.hpp"
#include "actors/request_sink.hpp"
#include "actors/system/timekeeper.hpp"

#include <algorithm>
#include <utility>

namespace paceline::testing {

EngineWorld::EngineWorld(const EngineOptions& options, std::uint64_t seed,
                         actors::VirtualTimeOptions order)
    : time_(seed, order), clock_(std::make_shared<actors::ActorTimekeeper>(time_.system())) {
  auto opened = actors::open_context(options, clock_, nullptr);
  if (!opened)
    FAIL(opened.error().text());
  opened_ = std::move(*opened);
  supervisor_ = messages::spawn<actors::Supervisor>(time_.system(), opened_.parts);
}

EngineWorld::~EngineWorld() {
  close();
  clock_->stop();
  opened_.closer->close();
}

void EngineWorld::close() {
  caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
  run();
}

std::shared_ptr<Recorder> EngineWorld::submit(const Request& request) {
  auto checked = actors::check_request(request, opened_, 17);
  if (!checked)
    FAIL(checked.error().text());
  auto spec = std::make_shared<speculation::SequenceSpec>(*checked->spec);
  spec->id = ++requests_;
  checked->spec = std::move(spec);
  auto recorder = std::make_shared<Recorder>();
  checked->sink = std::make_shared<actors::RequestSink>(recorder);
  if (!facade_)
    facade_ = handles().facade;
  messages::tell(facade_, std::move(*checked));
  return recorder;
}

void EngineWorld::cancel(std::uint64_t id) {
  messages::tell(handles().facade, messages::Cancel{id});
}

void EngineWorld::stop_clock_after(base::Duration delay) {
  clock_->after(delay, [] {});
}

bool EngineWorld::run_until_ended(const std::vector<std::shared_ptr<Recorder>>& requests) {
  return run_until([&] {
    return std::ranges::all_of(requests, [](const auto& request) { return request->ended(); });
  });
}

messages::ActorHandles EngineWorld::handles() {
  return *time_.ask<messages::ActorHandles>(supervisor_, messages::Ping{}, steps_max);
}

Metrics EngineWorld::metrics() {
  if (const auto cache = handles().kv_cache)
    time_.ask<messages::Pong>(cache, messages::Ping{}, steps_max); // counts its pages anew
  return opened_.parts.telemetry->snapshot();
}

void check_goes_on(const EngineOptions& options, std::uint64_t seed,
                   const std::vector<std::vector<TokenId>>& expected,
                   const std::function<void(EngineWorld&)>& kill) {
  EngineWorld world(options, seed);
  std::vector<std::shared_ptr<Recorder>> open;
  for (const Request& request : code_requests())
    open.push_back(world.submit(request));
  for (std::uint64_t steps = 40 + 97 * seed; steps > 0; --steps)
    world.step();
  kill(world);
  REQUIRE(world.run_until_ended(open));
  for (std::size_t i = 0; i < open.size(); ++i)
    CHECK(open[i]->answer.tokens == expected[i]);
  world.run();
  CHECK(world.metrics().restarts >= 1);
  CHECK(world.metrics().kv_pages_quarantined == 0);
}

void check_draft_of_parts(EngineOptions options) {
  const Request request = repeatable("import os\n", 16);
  options.speculation = SpeculationMode::off;
  const auto expected = [&] {
    Engine engine = open_engine(options);
    return ask(engine, request).tokens;
  }();
  options.drafters = {"self:mxfp6"};
  options.speculation = SpeculationMode::sync;
  Engine engine = open_engine(options);
  CHECK(ask(engine, request).tokens == expected);
  CHECK(engine.draft_model().value().shared_bytes == 0);
}

} // namespace paceline::testing
