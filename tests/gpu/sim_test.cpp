#include "gpu/device.hpp"
#include "gpu/limits.hpp"
#include "gpu/sim/profile.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

using namespace paceline;
using namespace paceline::gpu;
using namespace std::chrono_literals;
using gpu::testing::TestStep;
using gpu::testing::VirtualTime;

namespace {

struct Fixture {
  std::shared_ptr<VirtualTime> time = std::make_shared<VirtualTime>();

  std::unique_ptr<Lane> lane(const std::string& profile) const {
    return open_device("sim:" + profile, {1, time, nullptr}).value()->open_lane("target").value();
  }
  base::Duration now() const { return time->now().time_since_epoch(); }
};

std::shared_ptr<TestStep> step_of(Work work) {
  auto step = std::make_shared<TestStep>();
  step->what = work;
  return step;
}

} // namespace

TEST_CASE("profiles charge decode and draft by step and rows, prefill by rows, judging nothing") {
  const auto target = sim::parse_profile("chinchilla-70b").value();
  CHECK(target.latency({Work::Kind::decode, 1, 1, 0}) == 14100us);
  CHECK(target.latency({Work::Kind::decode, 9, 1, 0}) == 14100us);
  CHECK(target.latency({Work::Kind::verify, 9, 1, 0}) == 0us);
  CHECK(target.latency({Work::Kind::prefill, 512, 1, 0}) == 14100us + 512 * 64us);
  const auto draft = sim::parse_profile("chinchilla-4b").value();
  CHECK(draft.latency({Work::Kind::draft, 1, 1, 0}) == 1800us);
  const auto sloped = sim::parse_profile("14.1ms+0.2ms/row").value();
  CHECK(sloped.latency({Work::Kind::decode, 1, 1, 0}) == 14100us);
  CHECK(sloped.latency({Work::Kind::decode, 5, 1, 0}) == 14900us);
  CHECK(sim::parse_profile("250us")->latency({Work::Kind::draft, 4, 4, 0}) == 250us);
  CHECK(sim::parse_profile("1.5s")->latency({Work::Kind::decode, 1, 1, 0}) == 1500ms);
}

TEST_CASE("keys and values of half the bytes are read in half the time") {
  auto profile = sim::parse_profile("14.1ms").value();
  profile.attention.decode_reads = profile.attention.prompt_reads = 2ms;
  profile.per_context_token = 1us;
  Work work{Work::Kind::decode, 4, 4, 1024};
  work.decode_reads = work.prompt_reads = 1'000'000;
  CHECK(profile.latency(work) == 14100us + 4ms + 4 * 1024us);
  work.cache_width = 0.5;
  CHECK(profile.latency(work) == 14100us + 2ms + 2 * 1024us);
}

TEST_CASE("a stage of several takes its part of a profile's time, whatever the work") {
  const auto whole = sim::parse_profile("llama-13b-a6000").value();
  const auto stage = sim::parse_profile("llama-13b-a6000/4+queue").value();
  CHECK(stage.name == "llama-13b-a6000/4+queue");
  CHECK(stage.queues);
  for (const Work& work :
       {Work{Work::Kind::decode, 4, 4, 1024}, Work{Work::Kind::prefill, 1024, 1, 1024}}) {
    Work reading = work;
    reading.decode_reads = 4096;
    reading.prompt_reads = 524'800;
    CHECK(std::abs((4 * stage.latency(reading) - whole.latency(reading)).count()) < 100);
  }
  CHECK(sim::parse_profile("14.1ms+0.2ms/row/2")->latency({Work::Kind::decode, 5, 1, 0}) == 7450us);
  CHECK(!sim::parse_profile("14ms/0"));
  CHECK(!sim::parse_profile("14ms/x"));
}

TEST_CASE(
    "a pass over a group crosses to each further device, whether they work at once or in turn") {
  CHECK(sim::parse_profile("14.1ms+0.2ms/row/2+30us/hop")->hop == 30us);
  CHECK(sim::parse_profile("chinchilla-4b/16+30us/hop")->latency({Work::Kind::draft, 1, 1, 0}) ==
        112500ns);
  for (const char* wrong : {"14ms+/hop", "14ms+30/hop", "+30us/hop", "14ms+30us/hop/2x"})
    CHECK(!sim::parse_profile(wrong));
  const auto time_of = [](GroupWork work, Work::Kind kind) {
    Fixture f;
    std::vector<std::shared_ptr<Device>> devices;
    for (const char* name : {"sim:4ms", "sim:2ms+300us/hop", "sim:3ms+20us/hop"})
      devices.push_back(open_device(name, {1, f.time, nullptr}).value());
    const auto lane =
        devices.front()->make_group(devices, work).value()->open_lane("draft").value();
    const auto step = step_of({kind, 1, 1, 0});
    CHECK(lane->submit(step));
    f.time->run();
    return f.now();
  };
  CHECK(time_of(GroupWork::together, Work::Kind::draft) == 4320us);
  CHECK(time_of(GroupWork::in_turn, Work::Kind::draft) == 9320us);
  CHECK(time_of(GroupWork::in_turn, Work::Kind::verify) == 0us);
}

TEST_CASE("pairs of models that were published with their sources are known by name") {
  for (const sim::KnownProfile& known : sim::known_profiles()) {
    CAPTURE(known.name);
    const auto profile = sim::parse_profile(known.name).value();
    CHECK(profile.latency({Work::Kind::decode, 1, 1, 100}) == known.step + known.attention.step);
    CHECK(std::string(known.source).find(" et al. ") != std::string::npos);
  }
}

TEST_CASE(
    "a model of some size on a device reads its weights in every pass, and computes each row") {
  const auto seconds = [](const std::string& profile, const Work& work) {
    return base::seconds(sim::parse_profile(profile).value().latency(work));
  };
  // 80 % of 2,039 GB/s, and half of 312 T operations/s.
  const double read = 7e9 * 2 / (0.8 * 2039e9);
  for (const int rows : {1, 8, 64})
    CHECK(seconds("7b@a100", {Work::Kind::decode, rows, 1, 0}) == doctest::Approx(read));
  CHECK(seconds("7b@a100", {Work::Kind::prefill, 512, 1, 0}) ==
        doctest::Approx(512 * 2 * 7e9 / 156e12));
  CHECK(seconds("350m@a100", {Work::Kind::draft, 1, 1, 0}) == doctest::Approx(read / 20));
  CHECK(seconds("7b@a100/4", {Work::Kind::decode, 1, 1, 0}) == doctest::Approx(read / 4));
  for (const char* none : {"7b@b52", "7@a100", "0b@a100", "b@a100", "7bb@a100", "@a100"})
    CHECK(!sim::parse_profile(none));
}

TEST_CASE("a pass of a simulated device takes as long as the bytes of the weights on it") {
  Fixture f;
  const auto seconds_with = [&](std::optional<WeightFormat> format) {
    const auto device = open_device("sim:7b@a100", {1, f.time, nullptr}).value();
    const std::vector<float> numbers(64 * 256, 0.5f);
    HostMatrix matrix{DType::f32, numbers.data(), 64, 256};
    if (format)
      matrix.quantization = Quantization{*format, ScaleChoice::floor};
    const auto weight = device->pack(std::vector{matrix}).value();
    const auto lane = device->open_lane("target").value();
    const auto step = step_of({Work::Kind::decode, 1, 1, 0});
    REQUIRE(lane->submit(step));
    f.time->run();
    return base::seconds(step->wait().busy);
  };
  const double of_32_bits = seconds_with(std::nullopt);
  CHECK(of_32_bits == doctest::Approx(7e9 * 4 / (0.8 * 2039e9)));
  CHECK(seconds_with(WeightFormat::mxfp6) == doctest::Approx(of_32_bits * 6.25 / 32));
  CHECK(seconds_with(WeightFormat::mxfp4) == doctest::Approx(of_32_bits * 4.25 / 32));
}

TEST_CASE("the weights on a device are as wide as most of them") {
  sim::WeightWidth width;
  CHECK(width.bits() == 16);
  width.add(WeightFormat::bf16, 100, 200);
  CHECK(width.bits() == 16);
  width.add(WeightFormat::mxfp6, 64, 50);
  width.add(WeightFormat::mxfp6, 64, 50);
  CHECK(width.bits() == 6.25);
}

TEST_CASE("SARATHI's table comes out of its profile") {
  const auto profile = sim::parse_profile("llama-13b-a6000").value();
  constexpr std::int64_t length = 1024;
  const auto prompt_reads = [](std::int64_t rows) { return rows * (rows + 1) / 2; };
  const auto near = [](base::Duration is, base::Duration told) {
    return std::abs(double((is - told).count())) < 1e-3 * double(told.count());
  };
  const auto decodes = profile.latency({Work::Kind::decode, 4, 4, 1024, 4 * length, 0});
  CHECK(near(decodes, 49960us));
  const auto prompt = profile.latency({Work::Kind::prefill, 1024, 1, 1024, 0, prompt_reads(1024)});
  CHECK(near(prompt, 234800us));
  const auto both =
      profile.latency({Work::Kind::prefill, 1024, 4, 1024, 3 * length, prompt_reads(1021)});
  CHECK(near(both, 238400us));
}

namespace {

/// The error of a profile with this text, or "".
std::string complaint(const std::string& text) {
  const std::string path = "sim_test_profile.json";
  std::ofstream(path) << text;
  const auto profile = sim::parse_profile(path);
  std::filesystem::remove(path);
  return profile ? "" : profile.error().text();
}

} // namespace

TEST_CASE("a profile from a file has curves by rows, and costs of context, launch and copies") {
  const std::string path = "sim_test_profile.json";
  std::ofstream(path) << R"({"source": "made up",
    "decode": [[1, 10], [8, 10], [16, 18]], "prefill": [[1, 11], [101, 31]],
    "attention": {"step_ms": 0.25, "decode_ms_per_million": 1000, "prompt_ms_per_million": 10},
    "launch_ms": 0.25, "context_ms_per_1000": 2, "copy_ms_per_row": 0.01})";
  const auto profile = sim::parse_profile(path).value();
  std::filesystem::remove(path);
  CHECK(profile.latency({Work::Kind::decode, 0, 1, 0}) == 10500us);
  CHECK(profile.latency({Work::Kind::decode, 5, 1, 0}) == 10500us);
  CHECK(profile.latency({Work::Kind::draft, 12, 1, 0}) == 14500us);
  CHECK(profile.latency({Work::Kind::decode, 24, 1, 0}) == 26500us); // the last line goes on
  CHECK(profile.latency({Work::Kind::prefill, 51, 1, 0}) == 21500us);
  CHECK(profile.latency({Work::Kind::decode, 1, 4, 500}) == 14500us);
  CHECK(profile.latency({Work::Kind::decode, 1, 1, 0, 2000, 0}) == 12500us);
  CHECK(profile.latency({Work::Kind::prefill, 51, 2, 0, 1000, 100'000}) == 23500us);
  CHECK(profile.latency({Work::Kind::verify, 9, 1, 500}) == 90us);
}

TEST_CASE("a profile from a file may say what reading the weights takes at the least") {
  const std::string path = "sim_test_profile.json";
  std::ofstream(path)
      << R"({"decode": [[1, 1], [2, 2]], "prefill": [[1, 1], [2, 2]], "weights_ms": 8})";
  const auto profile = sim::parse_profile(path).value();
  std::filesystem::remove(path);
  CHECK(profile.latency({Work::Kind::decode, 3, 1, 0}) == 8ms);
  CHECK(profile.latency({Work::Kind::decode, 9, 1, 0}) == 9ms);
  CHECK(profile.balanced_rows() == doctest::Approx(8));
}

TEST_CASE("jitter is bounded, repeats, and is not there unless asked for") {
  const auto run = [](const std::string& jitter) {
    const std::string path = "sim_test_profile.json";
    std::ofstream(path) << R"({"decode": [[1, 10]], "prefill": [[1, 10]], "jitter": )" << jitter
                        << "}";
    Fixture f;
    const auto lane = f.lane(path);
    std::filesystem::remove(path);
    std::vector<base::Duration> took;
    for (int i = 0; i < 50; ++i) {
      const auto step = step_of({Work::Kind::decode, 1, 1, 0});
      const base::Duration begin = f.now();
      REQUIRE(lane->submit(step));
      f.time->run();
      took.push_back(f.now() - begin);
    }
    return took;
  };
  const auto took = run("0.2");
  CHECK(took == run("0.2"));
  CHECK(*std::ranges::min_element(took) >= 8ms);
  CHECK(*std::ranges::min_element(took) < 9ms);
  CHECK(*std::ranges::max_element(took) <= 12ms);
  CHECK(*std::ranges::max_element(took) > 11ms);
  CHECK(run("0") == std::vector<base::Duration>(50, 10ms));
}

TEST_CASE("a profile that says something else is refused by what is wrong") {
  CHECK(complaint("[]").find("no JSON object") != std::string::npos);
  CHECK(complaint("{").find("no JSON object") != std::string::npos);
  CHECK(complaint(R"({"prefill": [[1, 1]]})").find("decode") != std::string::npos);
  for (const char* bad : {"[]", "[1]", "[[1]]", "[[1, -1]]", "[[2, 1], [1, 1]]", "[[1, 1e9]]",
                          "[[-1, 1]]", "[[1.5, 1]]", "\"fast\""}) {
    CAPTURE(bad);
    CHECK(
        complaint(R"({"prefill": [[1, 1]], "decode": )" + std::string(bad) + "}").find("decode") !=
        std::string::npos);
  }
  const std::string good = R"("decode": [[1, 1]], "prefill": [[1, 1]])";
  CHECK(complaint("{" + good + "}").empty());
  CHECK(complaint("{" + good + R"(, "jitter": 2})").find("jitter") != std::string::npos);
  CHECK(complaint("{" + good + R"(, "attention": 2})").find("attention") != std::string::npos);
  CHECK(complaint("{" + good + R"(, "attention": {"ms": 2}})").find("field ms") !=
        std::string::npos);
  CHECK(complaint("{" + good + R"(, "lunch_ms": 2})").find("lunch_ms") != std::string::npos);
  CHECK(sim::parse_profile("/no/such.json").error().code == ErrorCode::not_found);
}

TEST_CASE("a simulated device with a queue has a piece ready, which costs no launch") {
  const std::string path = "sim_test_profile.json";
  std::ofstream(path)
      << R"({"decode": [[1, 10]], "prefill": [[1, 10]], "launch_ms": 2, "queue": true})";
  Fixture f;
  const auto lane = f.lane(path);
  std::filesystem::remove(path);
  std::vector<std::pair<char, base::Duration>> log;
  const auto note = [&](char what) { log.emplace_back(what, f.now()); };
  const auto step = std::make_shared<TestStep>([&](Operations&) { note('r'); });
  int left = 3;
  step->prepare_with = [&](base::TimePoint) {
    note('p');
    return left-- > 0 ? Step::Next::ready : Step::Next::done;
  };
  step->prepare_behind_with = [&] {
    note('b');
    return left == 2 && left-- > 0; // The second stands ready, the third does not.
  };
  step->complete_with = [&](base::TimePoint) { note('c'); };
  REQUIRE(lane->submit(step));
  f.time->run();
  CHECK(log == std::vector<std::pair<char, base::Duration>>{{'p', 0ms},
                                                            {'b', 0ms},
                                                            {'r', 12ms},
                                                            {'c', 12ms},
                                                            {'b', 12ms},
                                                            {'r', 22ms},
                                                            {'c', 22ms},
                                                            {'p', 22ms},
                                                            {'b', 22ms},
                                                            {'r', 34ms},
                                                            {'c', 34ms},
                                                            {'p', 34ms}});
  const Retirement how = step->wait();
  CHECK(how.busy == 34ms);
  CHECK(sim::parse_profile("14.1ms+0.2ms/row+queue")->queues);
  CHECK(!sim::parse_profile("14.1ms+0.2ms/row")->queues);
  CHECK(complaint(R"({"decode": [[1, 1]], "prefill": [[1, 1]], "queue": 1})").find("queue") !=
        std::string::npos);
}

TEST_CASE("a simulated step that throws when it is asked for a piece behind retires once") {
  Fixture f;
  const auto lane = f.lane("10ms+queue");
  const auto step = std::make_shared<TestStep>();
  step->prepare_behind_with = []() -> bool { throw std::runtime_error("no luck"); };
  const auto next = step_of({Work::Kind::decode, 1, 1, 0});
  REQUIRE(lane->submit(step));
  REQUIRE(lane->submit(next));
  f.time->run();
  CHECK(step->retired() == 1);
  CHECK(!step->wait().completed);
  CHECK(next->retired() == 1);
  CHECK(next->wait().completed);
}

TEST_CASE("a simulated piece is prepared at its beginning and completes exactly a latency later") {
  Fixture f;
  const auto lane = f.lane("14.1ms");
  std::vector<std::pair<char, base::Duration>> log;
  const auto step =
      std::make_shared<TestStep>([&](Operations&) { log.emplace_back('r', f.now()); });
  int asked = 0;
  step->prepare_with = [&](base::TimePoint now) {
    CHECK(now.time_since_epoch() == f.now());
    log.emplace_back('p', f.now());
    return ++asked <= 2 ? Step::Next::ready : Step::Next::done;
  };
  step->complete_with = [&](base::TimePoint) { log.emplace_back('c', f.now()); };
  REQUIRE(lane->submit(step));
  CHECK(log.empty()); // Nothing happens on the caller's thread.
  f.time->run();
  CHECK(log == std::vector<std::pair<char, base::Duration>>{{'p', 0us},
                                                            {'r', 14100us},
                                                            {'c', 14100us},
                                                            {'p', 14100us},
                                                            {'r', 28200us},
                                                            {'c', 28200us},
                                                            {'p', 28200us}});
  const Retirement how = step->wait();
  CHECK(how.completed);
  CHECK(how.begin.time_since_epoch() == 0us);
  CHECK(how.end.time_since_epoch() == 28200us);
  CHECK(how.busy == 28200us);
}

TEST_CASE("simulated steps run one after the other, and judging takes no time") {
  Fixture f;
  const auto lane = f.lane("2ms");
  const auto a = step_of({Work::Kind::decode, 1, 1, 0});
  const auto judge = step_of({Work::Kind::verify, 5, 1, 0});
  const auto b = step_of({Work::Kind::decode, 1, 1, 0});
  for (const auto& step : {a, judge, b})
    REQUIRE(lane->submit(step));
  f.time->run();
  CHECK(a->wait().end.time_since_epoch() == 2ms);
  CHECK(judge->wait().begin.time_since_epoch() == 2ms);
  CHECK(judge->wait().end.time_since_epoch() == 2ms);
  CHECK(b->wait().end.time_since_epoch() == 4ms);

  const auto late = step_of({Work::Kind::decode, 1, 1, 0}); // The idle lane starts again.
  REQUIRE(lane->submit(late));
  f.time->run();
  CHECK(late->wait().end.time_since_epoch() == 6ms);
}

TEST_CASE("a waiting simulated step is asked again after a pause of virtual time") {
  Fixture f;
  const auto lane = f.lane("1ms");
  const auto step = step_of({Work::Kind::decode, 1, 1, 0});
  int asked = 0;
  step->prepare_with = [&](base::TimePoint) {
    ++asked;
    return asked <= 3 ? Step::Next::waiting : asked == 4 ? Step::Next::ready : Step::Next::done;
  };
  REQUIRE(lane->submit(step));
  f.time->run();
  CHECK(step->wait().begin.time_since_epoch() == 3 * limits::sim_waiting_pause);
  CHECK(step->wait().end.time_since_epoch() == 3 * limits::sim_waiting_pause + 1ms);
  CHECK(step->wait().busy == 1ms);
}

TEST_CASE("a simulated lane that is dropped retires everything and leaves no dangling callback") {
  Fixture f;
  auto lane = f.lane("1ms");
  const auto first = step_of({Work::Kind::decode, 1, 1, 0});
  const auto second = step_of({Work::Kind::decode, 1, 1, 0});
  REQUIRE(lane->submit(first));
  REQUIRE(lane->submit(second));
  CHECK(f.time->step()); // `first` is in its piece now.
  lane.reset();
  for (const auto& step : {first, second}) {
    CHECK(step->retired() == 1);
    CHECK(!step->wait().completed);
    CHECK(step.use_count() == 2); // `first` or `second`, and the list of this loop.
  }
  f.time->run(); // The pending callback finds nothing.
  CHECK(first->retired() == 1);
}

TEST_CASE("a simulated step may drop its own lane while it retires or prepares") {
  for (bool in_prepare : {false, true}) {
    CAPTURE(in_prepare);
    Fixture f;
    auto lane = f.lane("1ms");
    const auto step = step_of({Work::Kind::decode, 1, 1, 0});
    const auto behind = step_of({Work::Kind::decode, 1, 1, 0});
    if (in_prepare)
      step->prepare_with = [&](base::TimePoint) {
        lane.reset();
        return Step::Next::waiting;
      };
    else
      step->retire_with = [&](const Retirement&) { lane.reset(); };
    REQUIRE(lane->submit(step));
    REQUIRE(lane->submit(behind));
    f.time->run();
    CHECK(step->retired() == 1);
    CHECK(step->wait().completed == !in_prepare);
    CHECK(behind->retired() == 1);
    CHECK(!behind->wait().completed);
  }
}

TEST_CASE("exceptions of a simulated step retire it and the lane goes on") {
  Fixture f;
  const auto lane = f.lane("1ms");
  const auto bad =
      std::make_shared<TestStep>([](Operations&) { throw std::runtime_error("boom"); });
  const auto good = step_of({Work::Kind::decode, 1, 1, 0});
  REQUIRE(lane->submit(bad));
  REQUIRE(lane->submit(good));
  f.time->run();
  CHECK(bad->wait().error);
  CHECK(bad->wait().end.time_since_epoch() == 1ms);
  CHECK(good->wait().completed);
  CHECK(good->wait().end.time_since_epoch() == 2ms);
}

TEST_CASE("a simulated piece runs in the numeric setting of a lane and leaves its caller's alone") {
  Fixture f;
  const auto lane = f.lane("1ms");
  volatile float tiny = 1e-39f;
  volatile float one = 1;
  float product = 1;
  REQUIRE(lane->submit(std::make_shared<TestStep>([&](Operations& ops) {
    CHECK(ops.ranks() == 1);
    product = tiny * one;
  })));
  f.time->run();
  CHECK(product == 0);
  CHECK(tiny * one != 0);
}

TEST_CASE("a full simulated queue refuses") {
  Fixture f;
  const auto lane = f.lane("1ms");
  for (std::size_t i = 0; i < limits::lane_queue_max; ++i)
    REQUIRE(lane->submit(step_of({})));
  CHECK(!lane->submit(step_of({})));
}
