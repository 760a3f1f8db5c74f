// A pass that leaves one stage's lane for the next one's.
#include "execution/handover.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::execution;

namespace {

struct Heard final : gpu::Lane {
  bool submit(std::shared_ptr<gpu::Step> /*step*/) override {
    ++steps;
    return true;
  }
  void rouse() override { ++roused; }
  const std::string& name() const override { return name_; }

  int steps = 0;
  int roused = 0;

private:
  std::string name_ = "heard";
};

const std::vector<std::shared_ptr<gpu::Step>> one_step(1);

} // namespace

TEST_CASE(
    "the next lane is roused once, when the pass comes and it is known, and takes its steps") {
  for (const bool known_first : {true, false}) {
    CAPTURE(known_first);
    Handover handover;
    const auto lane = std::make_shared<Heard>();
    if (known_first)
      handover.expect(lane, one_step);
    handover.come();
    CHECK(lane->roused == int(known_first));
    if (!known_first)
      handover.expect(lane, one_step);
    CHECK(lane->roused == 1);
    CHECK(lane->steps == 0);
    handover.arrive();
    CHECK(lane->roused == 1);
    CHECK(lane->steps == 1);
    CHECK(lane.use_count() == 1); // nothing is kept behind it
  }
}

TEST_CASE("a lane that has its steps already is not roused") {
  Handover handover;
  const auto lane = std::make_shared<Heard>();
  handover.come();
  handover.arrive();
  handover.expect(lane, one_step);
  CHECK(lane->roused == 0);
  CHECK(lane->steps == 1);

  Handover untold;
  untold.expect(lane, one_step);
  untold.arrive();
  CHECK(lane->roused == 0);
  CHECK(lane->steps == 2);
}
