// Several emulated GPUs as one: what shards add to a sum is added in their order, by NCCL and
// without it, and a GPU that goes keeps nobody waiting.
#include "gpu/cuda/survey.hpp"
#include "gpu/device.hpp"
#include "tests/gpu/cuda/named_nccl.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

Devices gpus(int count) {
  Devices devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(
        open_device("cuda:" + std::to_string(i), {1, std::make_shared<RealTime>(), nullptr})
            .value());
  return devices;
}

class ShardStep final : public TestStep {
public:
  using TestStep::TestStep;
  bool in_shards() const override { return true; }
};

/// GPUs, as one, with a lane.
struct Group {
  explicit Group(int count, bool nccl, cuda_emulation::Options machine = {}) {
    machine.devices = count;
    cuda_emulation::reset(machine);
    const NamedNccl named(nccl);
    members = gpus(count);
    device = members.front()->make_group(members).value();
    lane = device->open_lane("target").value();
  }
  ~Group() {
    lane.reset();
    device.reset();
    members.clear();
    CHECK(cuda_emulation::violation().empty());
    cuda_emulation::reset({});
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Retirement run(std::function<void(Operations&)> body) const {
    const auto step = std::make_shared<ShardStep>(std::move(body));
    REQUIRE(lane->submit(step));
    return step->wait();
  }

  Devices members;
  std::shared_ptr<Device> device;
  std::unique_ptr<Lane> lane;
};

constexpr int rows = 3;
constexpr int cols = 300; // more than a block
// They add up to 1 in this order, and to 0 in every other.
constexpr std::array<float, 3> addends{1e8f, -1e8f, 1};

/// What a shard of a sum has in its GPU's memory.
struct Sum {
  Sum(Device& device, const Device& group, float value, float before)
      : source(device.upload(std::vector<float>(rows * cols, value)).value()),
        part(allocate_near(device, group)),
        out(device.upload(std::vector<float>(rows * cols, before)).value()) {}
  std::shared_ptr<Buffer> source, part, out;
  static std::shared_ptr<Buffer> allocate_near(Device& device, const Device& group) {
    constexpr std::size_t bytes = rows * cols * sizeof(float);
    const Device* const others[] = {&group};
    if (auto reached = device.allocate_reached_by(others, bytes).value())
      return reached;
    return device.allocate(bytes).value();
  }
  Tensor of(const std::shared_ptr<Buffer>& buffer) const { return buffer->tensor(rows, cols); }
};

std::vector<Sum> sums_on(const Group& group) {
  std::vector<Sum> sums;
  for (std::size_t i = 0; i < addends.size(); ++i)
    sums.emplace_back(*group.members[i], *group.device, addends[i], 0.25f);
  return sums;
}

} // namespace

TEST_CASE("GPUs' shards are summed in their order, by NCCL and by copies, linked and not") {
  for (const bool nccl : {false, true})
    for (const bool linked : {false, true})
      for (const bool add : {false, true})
        for (unsigned seed = 1; seed < 4; ++seed) {
          CAPTURE(nccl);
          CAPTURE(linked);
          CAPTURE(add);
          const Group group(3, nccl, {.peers = linked, .seed = seed});
          const std::vector<Sum> sums = sums_on(group);
          constexpr std::array<std::int32_t, rows> every{0, 1, 2};
          const auto how = group.run([&](Operations& ops) {
            const Sum& own = sums[std::size_t(ops.shards().first)];
            CHECK(ops.shards().count == 1);
            std::vector<Tensor> parts;
            for (const Sum& sum : sums)
              parts.push_back(sum.of(sum.part));
            for (int round = 0; round < 3; ++round) { // what an earlier one gave is written over
              ops.gather(own.of(own.part), own.of(own.source), every);
              ops.meet();
              ops.sum(own.of(own.out), parts, add);
              ops.meet();
            }
          });
          REQUIRE_MESSAGE(how.completed, how.error->text());
          for (const Sum& sum : sums)
            for (int i = 0; i < rows * cols; ++i)
              REQUIRE(sum.of(sum.out).data[i] == (add ? 3.25f : 1.0f));
        }
}

TEST_CASE("a step that is not in shards runs on the first GPU of a group, and sums nothing") {
  const Group group(2, false);
  std::atomic<int> runs{0};
  const auto step = std::make_shared<TestStep>([&](Operations& ops) {
    CHECK(ops.shards().first == 0);
    ++runs;
  });
  REQUIRE(group.lane->submit(step));
  CHECK(step->wait().completed);
  CHECK(runs == 1);
  const auto buffer = group.device->allocate(64).value();
  const Tensor part = buffer->tensor(1, 16);
  const std::array<Tensor, 2> parts{part, part};
  const auto wrong =
      std::make_shared<TestStep>([&](Operations& ops) { ops.sum(part, parts, true); });
  REQUIRE(group.lane->submit(wrong));
  CHECK(!wrong->wait().completed);
}

TEST_CASE("what a group allocates each of its GPUs reaches, or the host has it") {
  for (const bool linked : {true, false}) {
    CAPTURE(linked);
    const Group group(3, false, {.peers = linked});
    const auto before = group.members.front()->memory().available;
    const auto buffer = group.device->allocate(4096).value();
    for (int gpu = 0; gpu < 3; ++gpu)
      CHECK(cuda_emulation::reaches(gpu, buffer->data()));
    CHECK(before - group.members.front()->memory().available == (linked ? 4096 : 0));
  }
  cuda_emulation::reset({.devices = 4});
  const Devices all = gpus(4);
  const auto writer = all[0]->make_group(std::span(all).first(2)).value();
  const auto reader = all[2]->make_group(std::span(all).last(2)).value();
  const auto between = allocate_between(*writer, *reader, 4096).value();
  for (int gpu = 0; gpu < 4; ++gpu)
    CHECK(cuda_emulation::reaches(gpu, between->data()));
}

TEST_CASE("a group has what equal parts on each of its GPUs leave") {
  const Group group(3, false);
  const auto one = group.members.front()->memory();
  CHECK(group.device->name() == "cuda:0|cuda:1|cuda:2");
  CHECK(group.device->memory().total == 3 * one.total);
  const auto taken = group.members.back()->allocate(std::size_t(1) << 20).value();
  CHECK(group.device->memory().available == 3 * (one.available - (std::size_t(1) << 20)));
}

TEST_CASE("a GPU of a group that goes frees the others, and the step says why") {
  for (const bool nccl : {false, true})
    for (const int victim : {0, 2}) {
      CAPTURE(nccl);
      CAPTURE(victim);
      const Group group(3, nccl);
      const std::vector<Sum> sums = sums_on(group);
      const auto add_up = [&](Operations& ops, int lost) {
        std::vector<Tensor> parts;
        for (const Sum& sum : sums)
          parts.push_back(sum.of(sum.part));
        const Sum& own = sums[std::size_t(ops.shards().first)];
        for (int round = 0; round < 20; ++round)
          ops.sum(own.of(own.out), parts, false);
        if (lost >= 0 && ops.shards().first == 2) { // everything is recorded, nothing enqueued
          std::thread([lost] { cuda_emulation::lose(lost); }).join();
        }
      };
      CHECK(group.run([&](Operations& ops) { add_up(ops, -1); }).completed);
      const Retirement how = group.run([&](Operations& ops) { add_up(ops, victim); });
      CHECK(!how.completed);
      REQUIRE(how.error);
      const Retirement next = group.run([&](Operations& ops) { add_up(ops, -1); });
      REQUIRE(next.error);
      CHECK(next.error->text().find("cuda:" + std::to_string(victim) + " was lost") !=
            std::string::npos);
    }
}

TEST_CASE("a GPU that goes while others wait for it in a sum frees them") {
  for (const bool nccl : {false, true})
    for (int attempt = 0; attempt < 8; ++attempt) {
      CAPTURE(nccl);
      const Group group(3, nccl);
      const std::vector<Sum> sums = sums_on(group);
      std::atomic<bool> over{false};
      std::thread fate([&, attempt] {
        std::this_thread::sleep_for(std::chrono::milliseconds(attempt));
        cuda_emulation::lose(1);
      });
      for (Retirement how; !over;) {
        how = group.run([&](Operations& ops) {
          std::vector<Tensor> parts;
          for (const Sum& sum : sums)
            parts.push_back(sum.of(sum.part));
          const Sum& own = sums[std::size_t(ops.shards().first)];
          for (int round = 0; round < 5; ++round)
            ops.sum(own.of(own.out), parts, false);
        });
        over = !how.completed;
      }
      fate.join();
    }
}

TEST_CASE("a step that fails before anything is enqueued leaves a group as it was") {
  const Group group(2, true);
  const auto failing = group.run([](Operations& ops) {
    ops.meet();
    if (ops.shards().first == 1)
      throw std::runtime_error("this shard is lost");
  });
  REQUIRE(failing.error);
  CHECK(failing.error->message.find("this shard is lost") != std::string::npos);
  CHECK(group.run([](Operations& ops) { ops.meet(); }).completed);
}

TEST_CASE("a library that PACELINE_NCCL names has to be there, and whether one is can be seen") {
  cuda_emulation::reset({.devices = 2});
  const Devices both = gpus(2);
  {
    const NamedNccl named("/nowhere/libnccl.so.2");
    const auto refused = both.front()->make_group(both);
    REQUIRE(!refused);
    CHECK(refused.error().message.find("NCCL does not load: /nowhere/libnccl.so.2") !=
          std::string::npos);
    CHECK(refused.error().hint.find("PACELINE_NCCL") != std::string::npos);
  }
  {
    const NamedNccl named(PACELINE_CUBLAS_EMULATED);
    const auto refused = both.front()->make_group(both);
    REQUIRE(!refused);
    CHECK(refused.error().message.find("is not NCCL as this build knows it") != std::string::npos);
  }
  {
    const NamedNccl named(PACELINE_NCCL_EMULATED);
    CHECK(cuda::survey().nccl == "2.27.3");
  }
  const auto survey = cuda::survey();
  CHECK(!survey.nccl);
  REQUIRE(survey.no_nccl);
  CHECK(survey.no_nccl->hint.find("copy from each other") != std::string::npos);
  CHECK(both.front()->make_group(both));
}

TEST_CASE("GPUs have no shards of one model together with other devices") {
  cuda_emulation::reset({.devices = 1});
  const Devices mixed{gpus(1).front(),
                      open_device("cpu", {1, std::make_shared<RealTime>(), nullptr}).value()};
  const auto group = mixed.front()->make_group(mixed);
  REQUIRE(!group);
  CHECK(group.error().message.find("cuda:0, cpu") != std::string::npos);
  CHECK(group.error().hint.find("devices of one kind") != std::string::npos);
}
