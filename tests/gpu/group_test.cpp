// Devices as one: shards run side by side and meet, and nobody waits for one that has failed.
#include "gpu/device_group.hpp"
#include "gpu/kv_pool.hpp"
#include "tests/gpu/support.hpp"

#include <algorithm>
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>

using namespace paceline;
using namespace paceline::gpu;
using gpu::testing::RealTime;
using gpu::testing::TestStep;
using gpu::testing::VirtualTime;
using namespace std::chrono_literals;

namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

std::shared_ptr<Device> group_of(const std::vector<std::string>& names, int threads,
                                 const std::shared_ptr<base::Timekeeper>& time) {
  Devices devices;
  for (const std::string& name : names)
    devices.push_back(open_device(name, {threads, time, nullptr}).value());
  return devices.front()->make_group(devices).value();
}

std::shared_ptr<Device> cpus(int shards, int threads) {
  return group_of(std::vector<std::string>(std::size_t(shards), "cpu"), threads,
                  std::make_shared<RealTime>());
}

/// A step whose shards are apart.
class ShardStep final : public TestStep {
public:
  using TestStep::TestStep;
  bool in_shards() const override { return true; }
};

} // namespace

TEST_CASE("each shard has a team of its own, and all of them meet") {
  for (const int shards : {2, 3})
    for (const int threads : {1, 2}) {
      CAPTURE(shards);
      CAPTURE(threads);
      const auto lane = cpus(shards, threads)->open_lane("target").value();
      std::array<std::atomic<int>, 3> ranks{};
      std::atomic<int> arrived{0};
      std::atomic<int> early{0};
      const auto body = [&](Operations& ops) {
        CHECK(ops.ranks() == threads);
        CHECK(ops.shards().count == 1);
        ranks[std::size_t(ops.shards().first)] += 1 + ops.rank();
        for (int round = 1; round <= 100; ++round) {
          ++arrived;
          ops.meet();
          if (arrived.load() < round * shards * threads)
            ++early;
          ops.meet();
        }
      };
      for (int run = 0; run < 3; ++run) {
        const auto again = std::make_shared<ShardStep>(body);
        arrived = 0;
        for (auto& count : ranks)
          count = 0;
        REQUIRE(lane->submit(again));
        CHECK(again->wait().completed);
        CHECK(early == 0);
        for (int shard = 0; shard < shards; ++shard)
          CHECK(ranks[std::size_t(shard)] == (threads == 1 ? 1 : 3));
      }
    }
}

TEST_CASE("a step that is not in shards has all threads of the group as one team") {
  const auto lane = cpus(2, 2)->open_lane("target").value();
  std::atomic<int> ranks{0};
  const auto step = std::make_shared<TestStep>([&](Operations& ops) {
    CHECK(ops.ranks() == 4);
    CHECK(ops.shards().first == 0);
    ranks += 1 << (4 * ops.rank());
    ops.barrier();
  });
  REQUIRE(lane->submit(step));
  CHECK(step->wait().completed);
  CHECK(ranks == 0x1111);
}

TEST_CASE("a shard that fails frees those that wait for it, and the lane goes on") {
  const auto lane = cpus(3, 2)->open_lane("target").value();
  for (int victim = 0; victim < 6; ++victim) {
    CAPTURE(victim);
    const bool before_meeting = victim % 2 == 0;
    const auto failing = std::make_shared<ShardStep>([&](Operations& ops) {
      const int number = 2 * ops.shards().first + ops.rank();
      ops.barrier();
      if (number == victim && before_meeting)
        throw std::runtime_error("this shard is lost");
      ops.meet();
      ops.barrier();
      if (number == victim)
        throw std::runtime_error("this shard is lost");
      ops.meet();
    });
    REQUIRE(lane->submit(failing));
    const Retirement how = failing->wait();
    CHECK(!how.completed);
    REQUIRE(how.error);
    CHECK(how.error->message.find("this shard is lost") != std::string::npos);
    const auto next = std::make_shared<ShardStep>([](Operations& ops) {
      ops.barrier();
      ops.meet();
    });
    REQUIRE(lane->submit(next));
    CHECK(next->wait().completed);
  }
}

TEST_CASE("shards are summed in their order, each number by itself, whoever comes first") {
  constexpr int rows = 3;
  constexpr int cols = 1100; // more than a run of elements
  // They add up to 1 in this order, and to 0 in every other.
  const std::array<float, 3> addends{1e8f, -1e8f, 1};
  for (const int threads : {1, 2})
    for (const bool add : {false, true})
      for (int late = 0; late < 3; ++late) {
        const auto group = cpus(3, threads);
        const auto lane = group->open_lane("target").value();
        std::vector<std::vector<float>> parts(3, std::vector<float>(rows * cols));
        std::vector<std::vector<float>> out(3, std::vector<float>(rows * cols, 0.25f));
        const auto tensor = [](std::vector<float>& from) {
          return Tensor{from.data(), rows, cols, cols};
        };
        const auto step = std::make_shared<ShardStep>([&](Operations& ops) {
          const auto shard = std::size_t(ops.shards().first);
          if (int(shard) == late)
            std::this_thread::sleep_for(200us);
          if (ops.rank() == 0)
            std::fill(parts[shard].begin(), parts[shard].end(), addends[shard]);
          ops.meet();
          const std::array<Tensor, 3> all{tensor(parts[0]), tensor(parts[1]), tensor(parts[2])};
          ops.sum(tensor(out[shard]), all, add);
        });
        REQUIRE(lane->submit(step));
        CHECK(step->wait().completed);
        for (const auto& sum : out)
          CHECK(sum == std::vector<float>(rows * cols, add ? 1.25f : 1.0f));
      }
}

TEST_CASE("simulated shards run one after the other, and a piece takes the slowest's time") {
  const auto time = std::make_shared<VirtualTime>();
  const auto group = group_of({"sim:3ms", "sim:5ms", "sim:4ms"}, 1, time);
  CHECK(group->name() == "sim:3ms|sim:5ms|sim:4ms");
  const auto lane = group->open_lane("target").value();
  int seen = 0;
  const auto step = std::make_shared<ShardStep>([&](Operations& ops) {
    CHECK(ops.shards().first == 0);
    seen = ops.shards().count;
    ops.meet();
  });
  const auto begin = time->now();
  REQUIRE(lane->submit(step));
  time->run();
  CHECK(step->wait().completed);
  CHECK(seen == 3);
  CHECK(step->wait().end - begin == 5ms);
}

TEST_CASE("a group says what it is made of, and holds no weight itself") {
  const auto group = cpus(2, 1);
  CHECK(group->shards().size() == 2);
  CHECK(group->name() == group->shards()[0]->name() + "|" + group->shards()[1]->name());
  CHECK(group->on_host());
  const std::vector<float> numbers(16, 1);
  const HostMatrix matrix{DType::f32, numbers.data(), 4, 4};
  CHECK(!group->pack({&matrix, 1}));
  CHECK(group->check_heads(64));
  CHECK(group->faster_in_int8() == group->shards()[0]->faster_in_int8());
}

TEST_CASE("devices share hardware where they or their shards are one, or have a core in common") {
  const auto time = std::make_shared<VirtualTime>();
  const auto one = [&](const std::string& name) {
    return open_device(name, {1, time, nullptr}).value();
  };
  const auto pair = group_of({"sim:2ms", "sim:3ms"}, 1, time);
  CHECK(share_hardware(*one("sim:2ms"), *one("sim:2ms")));
  CHECK_FALSE(share_hardware(*one("sim:2ms"), *one("sim:1ms")));
  CHECK(share_hardware(*one("sim:3ms"), *pair));
  CHECK(share_hardware(*pair, *one("sim:2ms")));
  CHECK_FALSE(share_hardware(*pair, *one("sim:1ms")));
  const auto all = one("cpu");
  CHECK(share_hardware(*all, *one(all->name().substr(0, 5)))); // all cores, and the first of them
  CHECK_FALSE(share_hardware(*all, *pair));
}

TEST_CASE("devices of several kinds, and such as know no groups, are refused") {
  const auto time = std::make_shared<RealTime>();
  const Devices mixed{open_device("cpu", {1, time, nullptr}).value(),
                      open_device("sim:1ms", {1, time, nullptr}).value()};
  const auto refused = mixed.front()->make_group(mixed);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().message.find("cannot have shards of one model") != std::string::npos);
}
