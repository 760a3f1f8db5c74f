// A lane on an emulated GPU: order, results, errors, loss, and that a steady round allocates
// nothing.
#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/limits.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/support.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <thread>

#include <array>
#include <atomic>
#include <stdexcept>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

struct Bench {
  explicit Bench(const cuda_emulation::Options& machine = {}) {
    cuda_emulation::reset(machine);
    device = open_device("cuda:0", {0, std::make_shared<RealTime>(), nullptr}).value();
    lane = device->open_lane("target").value();
  }
  ~Bench() {
    lane.reset();
    device.reset();
    CHECK(cuda_emulation::violation().empty());
    cuda_emulation::reset({});
  }

  Retirement run(std::function<void(Operations&)> body) const {
    auto step = std::make_shared<TestStep>(std::move(body));
    REQUIRE(lane->submit(step));
    return step->wait();
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Lane> lane;
};

} // namespace

TEST_CASE("steps on a GPU run in the order of their submission, and say how they ended") {
  const Bench bench;
  std::vector<int> order;
  std::vector<std::shared_ptr<TestStep>> steps;
  for (int i = 0; i < 8; ++i) {
    steps.push_back(std::make_shared<TestStep>([&, i](Operations& ops) {
      CHECK(ops.ranks() == 1);
      order.push_back(i);
    }));
    REQUIRE(bench.lane->submit(steps.back()));
  }
  for (const auto& step : steps)
    CHECK(step->wait().completed);
  CHECK(order == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(bench.lane->name() == "target cuda:0");
}

TEST_CASE("kernels of a part of a GPU run there alone, in graphs, too") {
  const Bench bench;
  const auto part = open_device("cuda:0/0-15", {0, std::make_shared<RealTime>(), nullptr}).value();
  const auto few = part->open_lane("draft").value();
  CHECK(few->name() == "draft cuda:0/0-15");
  const auto rows = part->upload(std::vector<float>{1, 2, 3, 4}).value();
  const auto add = [&](Lane& lane) {
    const std::array before{cuda_emulation::kernels_on(0), cuda_emulation::kernels_on(16)};
    auto step = std::make_shared<TestStep>(
        [&](Operations& ops) { ops.soft_cap(rows->tensor(1, 4), 30.0f); });
    REQUIRE(lane.submit(step));
    CHECK(step->wait().completed);
    return std::array{cuda_emulation::kernels_on(0) - before[0],
                      cuda_emulation::kernels_on(16) - before[1]};
  };
  for (int turn = 0; turn < 3; ++turn) { // Launched, captured, and as a graph.
    CHECK(add(*few) == std::array<std::size_t, 2>{1, 0});
    CHECK(add(*bench.lane) == std::array<std::size_t, 2>{1, 1});
  }
}

namespace {

/// A step of so many pieces that notes what a lane asks of it, each piece behind the one before.
struct Noting {
  explicit Noting(int pieces) : left(pieces) {
    step->prepare_with = [this](base::TimePoint) {
      log += left > 0 ? "P" : ".";
      return left-- > 0 ? Step::Next::ready : Step::Next::done;
    };
    step->prepare_behind_with = [this] {
      log += left > 0 ? "B" : "-";
      return left-- > 0;
    };
    step->complete_with = [this](base::TimePoint) {
      log += "c";
      if (log == fails_at)
        throw std::runtime_error("no luck");
    };
  }

  int left;
  std::string log;
  std::string fails_at; ///< What the log is when a completion throws.
  std::shared_ptr<TestStep> step = std::make_shared<TestStep>([this](Operations&) { log += "r"; });
};

} // namespace

TEST_CASE("a GPU has a piece ready behind the one at work, and no more") {
  const Bench bench;
  Noting pieces(4);
  REQUIRE(bench.lane->submit(pieces.step));
  const Retirement how = pieces.step->wait();
  CHECK(how.completed);
  CHECK(pieces.log == "PrBrcBrcBrc-c.");
  CHECK(how.busy <= how.end - how.begin);
}

TEST_CASE("what a piece left is there for the one behind it, though its memory grows meanwhile") {
  const Bench bench;
  const auto logits = bench.device->upload(std::vector<float>{0, 0, 9, 0}).value();
  const std::vector<float> numbers{10, 11, 12, 13};
  const HostMatrix matrix{DType::f32, numbers.data(), 4, 1};
  const auto table = bench.device->pack({&matrix, 1}).value();
  const auto fed = bench.device->allocate(sizeof(float)).value();
  const KvLayout layout{1, 1, 16, 16, KvType::bf16};
  const auto pool = KvPool::create(*bench.device, {16, layout.token_bytes()}, 1).value();
  const auto qkv = bench.device->allocate(sizeof(float) * 48).value();
  const std::vector<std::uint32_t> table_of_pages(50'000);
  const std::vector<RowMap> maps(20, {{0}, {3}, {table_of_pages}, {}});
  const auto outgrow = [&](Operations& ops) { // More than the first block of arguments holds.
    for (const RowMap& map : maps)
      ops.rope_store(qkv->tensor(1, 48), 1, {}, {}, map, {pool.get(), layout, 0});
  };
  const sampling::Warping greedy;
  ProposeTask task;
  task.logits = logits->tensor(1, 4).data;
  task.vocabulary = 4;
  task.warping = &greedy;
  int prepared = 0;
  auto step = std::make_shared<TestStep>([&](Operations& ops) {
    if (prepared == 1)
      ops.propose({&task, 1});
    outgrow(ops);
    if (prepared == 2)
      ops.embed_drawn(fed->tensor(1, 1), *table, std::array{task.place}, 1);
  });
  step->prepare_with = [&](base::TimePoint) {
    return prepared++ == 0 ? Step::Next::ready : Step::Next::done;
  };
  step->prepare_behind_with = [&] { return ++prepared <= 3; };
  REQUIRE(bench.lane->submit(step));
  CHECK(step->wait().completed);
  CHECK(fed->tensor(1, 1).data[0] == 12);
}

TEST_CASE("a step that throws with a piece ready behind retires when nothing is at work") {
  const Bench bench;
  const auto memory = bench.device->allocate(4096).value();
  const Tensor x = memory->tensor(32, 32);
  Noting pieces(3);
  pieces.fails_at = "PrBrc";
  pieces.step->what = {Work::Kind::draft, 1, 1, 1};
  auto after = std::make_shared<TestStep>([&](Operations& ops) { ops.soft_cap(x, 1); });
  REQUIRE(bench.lane->submit(pieces.step));
  REQUIRE(bench.lane->submit(after));
  const Retirement how = pieces.step->wait();
  CHECK(!how.completed);
  REQUIRE(how.error);
  CHECK(how.error->message.find("no luck") != std::string::npos);
  CHECK(pieces.log == "PrBrc");
  CHECK(after->wait().completed);
}

TEST_CASE("a profiler sees which step and which piece a lane is at, whatever comes of it") {
  const Bench bench;
  (void)cuda_emulation::take_marks();
  for (const bool fails : {false, true}) {
    auto step = std::make_shared<TestStep>([&](Operations&) {
      if (fails)
        throw std::runtime_error("no luck");
    });
    step->what = {Work::Kind::verify, 4, 1, 30};
    REQUIRE(bench.lane->submit(step));
    (void)step->wait();
  }
  auto last = std::make_shared<TestStep>();
  REQUIRE(bench.lane->submit(last));
  (void)last->wait(); // The two before it are over.
  const std::vector<std::string> step{"target cuda:0: paceline test 0",
                                      "target cuda:0:  paceline verify 4", "target cuda:0:  end",
                                      "target cuda:0: end"};
  const auto marks = cuda_emulation::take_marks();
  REQUIRE(marks.size() >= 8);
  CHECK(std::vector(marks.begin(), marks.begin() + 4) == step);
  CHECK(std::vector(marks.begin() + 4, marks.begin() + 8) == step);
}

TEST_CASE("a GPU's results are there when the piece has completed") {
  const Bench bench;
  const auto in = bench.device->upload(std::vector<float>(1 << 20, 3.0f)).value();
  const auto out = bench.device->allocate(in->size()).value();
  const Tensor from = in->tensor(1 << 10, 1 << 10);
  const Tensor to = out->tensor(1 << 10, 1 << 10);
  std::vector<std::int32_t> rows(1 << 10);
  auto step = std::make_shared<TestStep>([&](Operations& ops) { ops.gather(to, from, rows); });
  bool there = false;
  step->complete_with = [&](base::TimePoint) { // Emulated memory is the host's.
    there = std::all_of(to.data, to.data + (1 << 20), [](float x) { return x == 3.0f; });
  };
  REQUIRE(bench.lane->submit(step));
  CHECK(step->wait().completed);
  CHECK(there);
}

TEST_CASE("a step that throws on a GPU retires with its error, and the lane goes on") {
  const Bench bench;
  const auto memory = bench.device->allocate(4096).value();
  const Retirement how = bench.run([&](Operations& ops) {
    ops.soft_cap(memory->tensor(32, 32), 1);
    throw std::runtime_error("no luck");
  });
  CHECK(!how.completed);
  REQUIRE(how.error);
  CHECK(how.error->message.find("no luck") != std::string::npos);
  CHECK(bench.run([](Operations&) {}).completed);
}

TEST_CASE(
    "a GPU lost in the middle of a piece fails its step and every later one; the host lives") {
  const Bench bench({.devices = 2});
  const auto memory = bench.device->allocate(4096).value();
  const Retirement how = bench.run([&](Operations& ops) {
    ops.soft_cap(memory->tensor(32, 32), 1);
    cuda_emulation::lose(0);
    ops.soft_cap(memory->tensor(32, 32), 1);
  });
  CHECK(!how.completed);
  REQUIRE(how.error);
  CHECK(how.error->message.find("soft_cap") != std::string::npos); // The call that failed.
  const Retirement later = bench.run([](Operations&) { FAIL("ran on a lost GPU"); });
  CHECK(!later.completed);
  REQUIRE(later.error);
  CHECK(later.error->message.find("cuda:0 was lost") != std::string::npos);
  const auto other = open_device("cuda:1", {0, std::make_shared<RealTime>(), nullptr}).value();
  CHECK(other->open_lane("target").has_value());
}

TEST_CASE("a GPU lane's queue is bounded, and what is left in it when it closes is retired") {
  Bench bench;
  std::atomic<bool> held{true};
  auto first = std::make_shared<TestStep>([&](Operations&) { held.wait(true); });
  REQUIRE(bench.lane->submit(first));
  std::vector<std::shared_ptr<TestStep>> steps;
  bool accepted = true;
  while (accepted && steps.size() <= 2 * limits::lane_queue_max) {
    steps.push_back(std::make_shared<TestStep>());
    accepted = bench.lane->submit(steps.back());
  }
  CHECK(!accepted);
  CHECK(steps.size() >= limits::lane_queue_max);
  CHECK(steps.back()->retired() == 0);
  steps.pop_back();
  std::thread releasing([&] {
    held = false;
    held.notify_all();
  });
  bench.lane.reset(); // Before or after: each retires once, run or not.
  releasing.join();
  for (const auto& step : steps)
    CHECK(step->retired() == 1);
  bench.lane = bench.device->open_lane("draft").value();
}

TEST_CASE("a steady round on a GPU allocates nothing, on the device or pinned") {
  const Bench bench;
  const KvLayout layout{1, 1, 16, 16, KvType::bf16};
  const auto pool = KvPool::create(*bench.device, {16, layout.token_bytes()}, 1).value();
  const auto qkv = bench.device->allocate(sizeof(float) * 48).value();
  const std::vector<std::uint32_t> table(50'000);
  const auto round = [&](int calls) {
    std::vector<RowMap> maps(std::size_t(calls), {{0}, {3}, {table}, {}});
    const Retirement how = bench.run([&](Operations& ops) {
      for (const RowMap& map : maps)
        ops.rope_store(qkv->tensor(1, 48), 1, {}, {}, map, {pool.get(), layout, 0});
    });
    CHECK(how.completed);
  };
  round(20); // More than the first block of arguments holds.
  round(1);
  const std::size_t allocations = cuda_emulation::allocations();
  for (int i = 0; i < 5; ++i)
    round(1);
  round(20);
  CHECK(cuda_emulation::allocations() == allocations);
}
