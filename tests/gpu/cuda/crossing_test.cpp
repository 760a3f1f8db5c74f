// Rows of q between two devices: one draws from them, the other judges with them.
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr int vocabulary = 300;

/// A device with a lane and the same logits as every other.
struct Side {
  explicit Side(const char* name)
      : device(open_device(name, {1, std::make_shared<RealTime>(), nullptr}).value()),
        lane(device->open_lane("target").value()),
        memory(device->upload(Random(3).floats(2 * vocabulary, 2)).value()) {}

  void run(std::function<void(Operations&)> body) const {
    auto step = std::make_shared<TestStep>(std::move(body));
    REQUIRE(lane->submit(step));
    REQUIRE(step->wait().completed);
  }
  const float* logits() const { return memory->tensor(2, vocabulary).row(0); }

  std::shared_ptr<Device> device;
  std::unique_ptr<Lane> lane;
  std::shared_ptr<Buffer> memory;
};

void check_crossing(const char* draft_name, const char* target_name) {
  CAPTURE(draft_name);
  CAPTURE(target_name);
  const Side draft(draft_name);
  const Side target(target_name);
  sampling::Warping warping;
  warping.temperature = 1;
  const auto row =
      allocate_between(*draft.device, *target.device, sizeof(float) * (vocabulary + 20)).value();
  for (std::uint32_t attempt = 0; attempt < 5; ++attempt) {
    ProposeTask drawn;
    drawn.logits = draft.logits();
    drawn.vocabulary = vocabulary;
    drawn.warping = &warping;
    drawn.noise = {11, 0};
    drawn.position = 9;
    drawn.attempt = attempt;
    drawn.q = reinterpret_cast<float*>(row->data());
    drawn.q_size = vocabulary + 20;
    draft.run([&](Operations& ops) { ops.propose({&drawn, 1}); });
    REQUIRE(!drawn.failed);

    const float* q = drawn.q;
    VerifyTask judged;
    judged.logits = target.logits();
    judged.stride = vocabulary;
    judged.vocabulary = vocabulary;
    judged.warping = &warping;
    judged.noise = drawn.noise;
    judged.position = drawn.position;
    judged.tokens = {&drawn.token, 1};
    judged.q = {&q, 1};
    judged.check_draws = true;
    judged.attempt = attempt;
    target.run([&](Operations& ops) { ops.verify({&judged, 1}); });
    CHECK(!judged.failed);
    CHECK(!judged.inconsistent_draw);
    CHECK(judged.accepted == 1); // p is q but for its last bits.
    judged.attempt = attempt + 100;
    const TokenId other = (drawn.token + 1) % vocabulary;
    judged.tokens = {&other, 1};
    target.run([&](Operations& ops) { ops.verify({&judged, 1}); });
    CHECK(judged.inconsistent_draw);
  }
}

} // namespace

TEST_CASE("a row that a GPU drew from is judged on the host, and the other way round") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  check_crossing("cuda:0", "cpu");
  check_crossing("cpu", "cuda:0");
  check_crossing("cuda:0", "cuda:0");
}

TEST_CASE("a row that a GPU drew from is judged on another, whether they are linked or not") {
  for (const bool linked : {true, false}) {
    CAPTURE(linked);
    const Gpus gpus(2, linked);
    if (gpus.there())
      check_crossing("cuda:0", "cuda:1");
  }
}
