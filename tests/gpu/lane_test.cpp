#include "gpu/device.hpp"
#include "gpu/limits.hpp"
#include "tests/gpu/support.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <iterator>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <thread>

using namespace paceline;
using namespace paceline::gpu;
using gpu::testing::RealTime;
using gpu::testing::TestStep;

namespace {

std::shared_ptr<Device> cpu_device(int threads, std::shared_ptr<base::Trace> trace = nullptr) {
  return open_device("cpu", {threads, std::make_shared<RealTime>(), std::move(trace)}).value();
}

std::unique_ptr<Lane> lane(int threads) {
  return cpu_device(threads)->open_lane("target").value();
}

} // namespace

TEST_CASE("every rank of the team runs a piece, and barriers keep them together") {
  for (int threads : {1, 2, 3, 5}) {
    CAPTURE(threads);
    const auto queue = lane(threads);
    std::atomic<int> arrived{0};
    std::atomic<int> early{0};
    auto step = std::make_shared<TestStep>([&](Operations& ops) {
      for (int round = 1; round <= 200; ++round) {
        ++arrived;
        ops.barrier();
        if (arrived.load() < round * ops.ranks())
          ++early;
        ops.barrier();
      }
    });
    REQUIRE(queue->submit(step));
    CHECK(step->wait().completed);
    CHECK(arrived == 200 * threads);
    CHECK(early == 0);
  }
}

TEST_CASE("steps run in the order of submission, and each retires once") {
  const auto queue = lane(2);
  std::vector<int> order;
  std::vector<std::shared_ptr<TestStep>> steps;
  for (int i = 0; i < 40; ++i) {
    steps.push_back(std::make_shared<TestStep>([&order, i](Operations& ops) {
      if (ops.rank() == 0)
        order.push_back(i);
    }));
    REQUIRE(queue->submit(steps.back()));
  }
  for (const auto& step : steps) {
    const Retirement how = step->wait();
    CHECK(how.completed);
    CHECK(!how.error);
    CHECK(how.begin <= how.end);
    CHECK(how.busy <= how.end - how.begin);
    CHECK(step->retired() == 1);
  }
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(order.size() == 40);
}

TEST_CASE("a step has as many pieces as it says, and one that waits is asked again") {
  const auto queue = lane(2);
  std::atomic<int> runs{0};
  int asked = 0;
  auto step = std::make_shared<TestStep>([&](Operations& ops) { runs += ops.rank() == 0; });
  step->prepare_with = [&](base::TimePoint) {
    ++asked;
    if (asked % 50 != 0)
      return Step::Next::waiting;
    return asked <= 150 ? Step::Next::ready : Step::Next::done;
  };
  REQUIRE(queue->submit(step));
  const Retirement how = step->wait();
  CHECK(how.completed);
  CHECK(runs == 3);
  CHECK(asked == 200);
}

TEST_CASE("busy time is the pieces' time, and waiting does not count") {
  struct Ticking final : base::Timekeeper { // A microsecond a question.
    base::TimePoint now() const override {
      return base::TimePoint(std::chrono::microseconds(++ticks));
    }
    void after(base::Duration, std::function<void()>) override { std::abort(); }
    mutable std::atomic<int> ticks{0};
  };
  const auto device = open_device("cpu", {2, std::make_shared<Ticking>(), nullptr}).value();
  const auto queue = device->open_lane("target").value();
  auto step = std::make_shared<TestStep>();
  int asked = 0;
  step->prepare_with = [&](base::TimePoint) {
    ++asked;
    if (asked == 8)
      return Step::Next::done;
    return asked == 1 || asked >= 5 ? Step::Next::ready : Step::Next::waiting;
  };
  REQUIRE(queue->submit(step));
  const Retirement how = step->wait();
  CHECK(how.busy == std::chrono::microseconds(4));             // Pieces 1, 5, 6 and 7.
  CHECK(how.end - how.begin == std::chrono::microseconds(10)); // And three questions between.
}

TEST_CASE("denormal numbers are flushed on every rank, and on no thread outside") {
  const auto product = [] {
    volatile float tiny = 1e-39f;
    volatile float one = 1;
    return tiny * one;
  };
  const auto queue = lane(3);
  std::atomic<int> flushed{0};
  auto step = std::make_shared<TestStep>([&](Operations&) { flushed += product() == 0; });
  step->complete_with = [&](base::TimePoint) { CHECK(product() != 0); };
  REQUIRE(queue->submit(step));
  CHECK(step->wait().completed);
  CHECK(flushed == 3);
}

TEST_CASE("a step without pieces completes with no busy time") {
  const auto queue = lane(1);
  auto step = std::make_shared<TestStep>();
  step->prepare_with = [](base::TimePoint) { return Step::Next::done; };
  REQUIRE(queue->submit(step));
  const Retirement how = step->wait();
  CHECK(how.completed);
  CHECK(how.busy == base::Duration::zero());
  CHECK(how.begin == how.end);
}

TEST_CASE("an exception on any rank retires the step with an error and frees the others") {
  const auto queue = lane(3);
  for (int bad = 0; bad < 3; ++bad) {
    CAPTURE(bad);
    auto step = std::make_shared<TestStep>([bad](Operations& ops) {
      ops.barrier();
      if (ops.rank() == bad)
        throw std::runtime_error("boom");
      for (int i = 0; i < 10; ++i)
        ops.barrier();
    });
    REQUIRE(queue->submit(step));
    const Retirement how = step->wait();
    CHECK(!how.completed);
    REQUIRE(how.error);
    CHECK(how.error->message.find("boom") != std::string::npos);
    auto next = std::make_shared<TestStep>([](Operations& ops) {
      for (int i = 0; i < 10; ++i)
        ops.barrier();
    });
    REQUIRE(queue->submit(next));
    CHECK(next->wait().completed); // The lane goes on.
  }
}

TEST_CASE("exceptions of the lane's own calls retire the step too, even one from retire") {
  const auto queue = lane(2);
  auto in_prepare = std::make_shared<TestStep>();
  in_prepare->prepare_with = [](base::TimePoint) -> Step::Next { throw std::bad_alloc(); };
  REQUIRE(queue->submit(in_prepare));
  CHECK(in_prepare->wait().error->code == ErrorCode::out_of_memory);

  auto in_complete = std::make_shared<TestStep>();
  in_complete->complete_with = [](base::TimePoint) { throw 42; };
  REQUIRE(queue->submit(in_complete));
  CHECK(in_complete->wait().error->code == ErrorCode::internal);

  auto in_retire = std::make_shared<TestStep>();
  in_retire->retire_with = [](const Retirement&) { throw std::runtime_error("late"); };
  REQUIRE(queue->submit(in_retire));
  auto after = std::make_shared<TestStep>();
  REQUIRE(queue->submit(after));
  CHECK(after->wait().completed);
}

TEST_CASE("closing a lane ends the running piece and retires the rest as not completed") {
  auto queue = lane(2);
  std::promise<void> begun;
  auto running = std::make_shared<TestStep>([&](Operations& ops) {
    if (ops.rank() == 0)
      begun.set_value();
    for (int i = 0; i < 100; ++i)
      ops.barrier();
  });
  int pieces = 0;
  bool piece_ended = false;
  running->prepare_with = [&](base::TimePoint) { // After its piece only closing ends it.
    return pieces++ == 0 ? Step::Next::ready : Step::Next::waiting;
  };
  running->complete_with = [&](base::TimePoint) { piece_ended = true; };
  REQUIRE(queue->submit(running));
  std::vector<std::shared_ptr<TestStep>> queued;
  std::atomic<int> ran{0};
  for (int i = 0; i < 5; ++i) {
    queued.push_back(std::make_shared<TestStep>([&](Operations&) { ++ran; }));
    REQUIRE(queue->submit(queued.back()));
  }
  begun.get_future().wait();
  queue.reset();
  CHECK(piece_ended);
  CHECK(running->retired() == 1);
  CHECK(!running->wait().completed);
  CHECK(ran == 0);
  for (const auto& step : queued) {
    CHECK(step->retired() == 1);
    CHECK(!step->wait().completed);
    CHECK(step->wait().error);
    CHECK(step.use_count() == 1); // The lane has dropped it.
  }
}

TEST_CASE("a step that waits for ever does not keep its lane from closing") {
  auto queue = lane(2);
  auto step = std::make_shared<TestStep>();
  std::promise<void> asked;
  bool first = true;
  step->prepare_with = [&](base::TimePoint) {
    if (std::exchange(first, false))
      asked.set_value();
    return Step::Next::waiting;
  };
  REQUIRE(queue->submit(step));
  asked.get_future().wait();
  queue.reset();
  CHECK(step->retired() == 1);
  CHECK(!step->wait().completed);
}

TEST_CASE("a step may drop the last owner of its own lane") {
  auto queue = lane(2);
  Lane* address = queue.get();
  auto step = std::make_shared<TestStep>();
  auto behind = std::make_shared<TestStep>();
  std::promise<void> submitted;
  step->retire_with = [&](const Retirement&) {
    submitted.get_future().wait();
    queue.reset();
  };
  REQUIRE(address->submit(step));
  REQUIRE(address->submit(behind));
  submitted.set_value();
  CHECK(step->wait().completed);
  CHECK(!behind->wait().completed);
}

TEST_CASE("a full queue refuses, and a refused step is never retired") {
  auto queue = lane(1);
  std::promise<void> begun;
  std::promise<void> go;
  auto running = std::make_shared<TestStep>([&](Operations&) {
    begun.set_value();
    go.get_future().wait();
  });
  REQUIRE(queue->submit(running));
  begun.get_future().wait();
  std::vector<std::shared_ptr<TestStep>> accepted;
  for (std::size_t i = 0; i < limits::lane_queue_max; ++i) {
    accepted.push_back(std::make_shared<TestStep>());
    REQUIRE(queue->submit(accepted.back()));
  }
  auto refused = std::make_shared<TestStep>();
  CHECK(!queue->submit(refused));
  go.set_value();
  for (const auto& step : accepted)
    CHECK(step->wait().completed);
  queue.reset();
  CHECK(refused->retired() == 0);
}

TEST_CASE("two teams on the same cores both make progress") {
  const auto device = cpu_device(2);
  const auto a = device->open_lane("target").value();
  const auto b = device->open_lane("draft").value();
  const auto many_barriers = [](Operations& ops) {
    for (int i = 0; i < 2000; ++i)
      ops.barrier();
  };
  std::vector<std::shared_ptr<TestStep>> steps;
  for (int i = 0; i < 10; ++i)
    for (Lane* queue : {a.get(), b.get()}) {
      steps.push_back(std::make_shared<TestStep>(many_barriers));
      REQUIRE(queue->submit(steps.back()));
    }
  for (const auto& step : steps)
    CHECK(step->wait().completed);
}

TEST_CASE("more threads than cores still work") {
  const auto queue = lane(9);
  auto step = std::make_shared<TestStep>([](Operations& ops) {
    for (int i = 0; i < 50; ++i)
      ops.barrier();
  });
  REQUIRE(queue->submit(step));
  CHECK(step->wait().completed);
}

TEST_CASE("a trace has one span per piece, in the lane's row") {
  const auto trace = std::make_shared<base::Trace>();
  {
    const auto queue = cpu_device(1, trace)->open_lane("draft").value();
    auto step = std::make_shared<TestStep>();
    step->what = {Work::Kind::draft, 4, 1, 99};
    REQUIRE(queue->submit(step));
    CHECK(step->wait().completed);
    CHECK(queue->name().starts_with("draft cpu:"));
  }
  const auto file = std::filesystem::temp_directory_path() / "paceline_lane_trace.json";
  REQUIRE(trace->write(file.string()));
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(file);
  CHECK(text.find(R"("kind":"draft","rows":4,"sequences":1,"context":99)") != std::string::npos);
  CHECK(text.find(R"("name":"draft cpu:)") != std::string::npos);
}
