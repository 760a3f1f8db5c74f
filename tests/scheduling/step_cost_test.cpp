#include "scheduling/limits.hpp"
#include "scheduling/step_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

/// Weights are read in 10 ms, which 20 rows of arithmetic fill; a token of context takes 1 us.
base::Duration machine(int rows, double context) {
  return std::max<base::Duration>(10ms, rows * 500us) + base::Duration(std::int64_t(context * 1e3));
}

StepCost taught(double noise) {
  StepCost cost;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  for (int step = 0; step < 200; ++step) {
    const int rows = step % 4 == 0 ? 32 << (step / 4 % 5) : 1 + step % 17;
    const double context = double(random() % 8000);
    cost.observe(
        rows, context,
        base::Duration(std::int64_t(double(machine(rows, context).count()) * factor(random))));
  }
  return cost;
}

double error_at(const StepCost& cost, int rows, double context) {
  return std::abs(
      base::seconds(*cost.predict(rows, context)) / base::seconds(machine(rows, context)) - 1);
}

} // namespace

TEST_CASE("after 200 steps a step's cost is known within a tenth, whatever its rows and context") {
  const StepCost cost = taught(0.05);
  for (const int rows : {1, 4, 16, 32, 100, 300, 512})
    for (const double context : {0.0, 2000.0, 8000.0}) {
      CAPTURE(rows);
      CAPTURE(context);
      CHECK(error_at(cost, rows, context) < 0.1);
    }
  CHECK(cost.median_error() > 0);
  CHECK(cost.median_error() < 0.1);
}

TEST_CASE("a step that stalled hardly changes what steps cost") {
  StepCost cost = taught(0);
  cost.observe(4, 4000, 10s);
  CHECK(error_at(cost, 4, 4000) < 0.25);
}

TEST_CASE("a machine that became slower is followed") {
  StepCost cost = taught(0);
  for (int step = 0; step < 100; ++step)
    cost.observe(4, 4000, 2 * machine(4, 4000));
  CHECK(base::seconds(*cost.predict(4, 4000)) > 1.8 * base::seconds(machine(4, 4000)));
}

namespace {

/// A machine whose steps take longer by half of what a draft works beside them. Steps of one row
/// have had anything beside them, those of 4 never nothing, and those of 9 always nothing.
StepCost taught_beside_a_draft() {
  StepCost cost;
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> factor(0.97, 1.03);
  for (int step = 0; step < 120; ++step) {
    const int rows = step % 3 == 0 ? 1 : step % 3 == 1 ? 4 : 9;
    const auto beside = rows == 9 ? 0us : (rows == 1 ? step % 5 : 4 + step % 2) * 2000us;
    const double seconds = factor(random) * base::seconds(10ms + beside / 2);
    cost.observe(rows, 0, base::from_seconds(seconds), beside);
  }
  return cost;
}

} // namespace

TEST_CASE("what a draft beside them adds to steps is not taken for the cost of their rows") {
  const StepCost cost = taught_beside_a_draft();
  CHECK(cost.sharing() == doctest::Approx(0.5).epsilon(0.1));
  for (const int rows : {1, 4, 9}) {
    CAPTURE(rows);
    CHECK(base::seconds(*cost.predict_boldly(rows, 0)) == doctest::Approx(0.01).epsilon(0.05));
    CHECK(base::seconds(*cost.predict_least(rows, 0)) == doctest::Approx(0.01).epsilon(0.05));
  }
  CHECK(*cost.predict(4, 0) > *cost.predict_boldly(4, 0) + 1ms); // as such steps go
  CHECK(cost.median_error() < 0.05);
}

TEST_CASE("a draft beside steps that adds nothing to them changes nothing that is learned") {
  StepCost cost;
  StepCost other;
  std::mt19937_64 random(12);
  std::uniform_real_distribution<double> factor(0.95, 1.05);
  for (int step = 0; step < 200; ++step) {
    const auto took = base::from_seconds(factor(random) * 0.01);
    cost.observe(1 + step % 4, 0, took, step % 3 * 2ms);
    other.observe(1 + step % 4, 0, took);
  }
  CHECK(cost.sharing() < 0.05);
  CHECK(base::seconds(*cost.predict(2, 0)) ==
        doctest::Approx(base::seconds(*other.predict(2, 0))).epsilon(0.01));
}

TEST_CASE("an objective allows the rows that it has time for, and at least one") {
  const StepCost cost = taught(0);
  const int rows = cost.rows_within(100ms, 0, 528);
  CHECK(rows > 180);
  CHECK(rows < 210); // 200
  CHECK(cost.rows_within(1ms, 0, 528) == 1);
  CHECK(cost.rows_within(10s, 0, 528) == 528);
  CHECK(StepCost().rows_within(1ms, 0, 528) == 528);
}

TEST_CASE("the knee lies where more rows bring nothing") {
  const StepCost cost = taught(0);
  const int rows = cost.knee(4000, 528);
  CHECK(rows >= 32);
  CHECK(rows <= 128); // of 528 that would take eight times as long as a plain step
  CHECK(StepCost().knee(0, 528) == 528);
}

TEST_CASE("a bend at the end of a kernel's tile is met, from both sides") {
  StepCost cost;
  for (const int rows : {13, 15, 16, 17, 18, 20})
    cost.observe(rows, 0, 10ms + std::max(0, rows - 16) * 1ms);
  CHECK(*cost.predict(16, 0) < 10500us);
  CHECK(*cost.predict(20, 0) > 13ms);
}

TEST_CASE("a size of which a slow step was seen does not hide that fewer rows are as good") {
  for (const int slow : {160, 224, 320, 448}) {
    CAPTURE(slow);
    StepCost cost;
    for (int rows = 16; rows <= 528; rows += 16)
      if (rows != slow)
        cost.observe(rows, 0, machine(rows, 0));
    cost.observe(slow, 0, 2 * machine(slow, 0));
    CHECK(cost.knee(0, 528) <= 32);
  }
}

TEST_CASE("where the largest steps are dear the knee is by those that are not") {
  StepCost cost;
  for (int rows = 16; rows <= 528; rows += 16)
    cost.observe(rows, 0, std::max<base::Duration>(10ms, rows * (rows <= 256 ? 100us : 200us)));
  CHECK(cost.knee(0, 528) >= 91); // 100 rows fill the time of reading the weights
  CHECK(cost.knee(0, 528) <= 112);
}

TEST_CASE(
    "a size that was never observed is tried as if its rows were free, but not far from any") {
  StepCost cost;
  cost.observe(8, 0, 10ms);
  cost.observe(24, 0, 18ms);
  CHECK(base::seconds(*cost.predict(16, 0)) == doctest::Approx(0.014));
  CHECK(*cost.predict_boldly(16, 0) == 10ms);
  CHECK(*cost.predict_boldly(20, 0) == *cost.predict(20, 0));
  CHECK(*cost.predict_boldly(48, 0) == 18ms);
  CHECK(*cost.predict_boldly(49, 0) > 36ms);
  cost.observe(16, 0, 12ms);
  CHECK(*cost.predict_boldly(16, 0) == 12ms);
  CHECK(cost.knows(8));
  CHECK(cost.knows(9));
  CHECK_FALSE(cost.knows(7));
  CHECK_FALSE(cost.knows(100));
}

TEST_CASE("the least that a step may take is what fewer rows take, and its share of what more do") {
  StepCost cost;
  CHECK_FALSE(cost.predict_least(1, 0));
  cost.observe(16, 0, 10ms);
  CHECK(*cost.predict_least(500, 0) == 10ms);
  CHECK(*cost.predict_least(8, 0) == 5ms);
  cost.observe(512, 0, 64ms);
  CHECK(*cost.predict_least(64, 0) == 10ms); // where a line between both would have 15 ms
  CHECK(*cost.predict_least(256, 0) == 32ms);
  CHECK(*cost.predict_least(16, 0) == *cost.predict(16, 0));
  CHECK(*cost.predict_least(1024, 0) > 115ms); // on the line through both
  CHECK(*cost.predict_least(1024, 0) < 128ms);
}

TEST_CASE("a size that was observed with less context may still take what it took") {
  StepCost cost;
  for (int step = 0; step < 100; ++step)
    cost.observe(32, step * 100, machine(32, step * 100));
  cost.observe(64, 0, machine(64, 0));
  CHECK(*cost.predict(64, 10'000) > machine(64, 0) + 5ms);
  CHECK(*cost.predict_least(64, 10'000) == machine(64, 0));
}

TEST_CASE("the first step of its size is believed as far as others let it be") {
  StepCost cost;
  cost.observe(4, 0, 10ms);
  cost.observe(8, 0, 10ms);
  cost.observe(6, 0, 10s);
  CHECK(*cost.predict(6, 0) == 30ms);
}

TEST_CASE("before a step was observed the weights and the arithmetic say what it takes") {
  StepCost cost({.weights = 0.010, .row = 0.0005});
  CHECK(*cost.predict(1, 0) == 10ms);
  CHECK(*cost.predict(100, 0) == 50ms);
  CHECK(cost.rows_within(100ms, 0, 528) > 190);
  CHECK(cost.rows_within(100ms, 0, 528) <= 200);
  CHECK(cost.knee(0, 528) < 64);
  CHECK(cost.timeout(1, 0, 1s) == scheduling::limits::first_step_timeout); // that is no measurement
  cost.observe(1, 0, 40ms);
  CHECK(*cost.predict(1, 0) == 40ms);
}

TEST_CASE("before a step was observed a mixture's time grows with the experts that rows touch") {
  // 1 ms is read by every step, 16 ms are 16 experts, of which a row goes to 2.
  const StepPrior mixture{.weights = 0.001, .row = 1e-6, .experts = 0.016, .share = 2.0 / 16};
  CHECK(mixture.seconds(1) == doctest::Approx(0.003));
  CHECK(mixture.seconds(2) == doctest::Approx(0.001 + 0.016 * (1 - 0.875 * 0.875)));
  CHECK(mixture.seconds(8) > 3.5 * mixture.seconds(1));
  CHECK(mixture.seconds(1000) == doctest::Approx(0.017));
  const StepPrior dense{.weights = 0.017, .row = 1e-6};
  CHECK(dense.seconds(8) == dense.seconds(1));
  // Until steps show more, a size that was seen goes on as the prior does.
  StepCost cost(mixture);
  cost.observe(1, 0, 6ms);
  CHECK(base::seconds(*cost.predict_boldly(2, 0)) ==
        doctest::Approx(0.006 * mixture.seconds(2) / mixture.seconds(1)));
}

TEST_CASE("row by row a mixture's cost is learned up to eight rows") {
  StepCost cost;
  const auto took = [](int rows) { // of 8 experts, one for a row
    return base::from_seconds(0.001 + 0.008 * (1 - std::pow(1 - 1.0 / 8, rows)));
  };
  for (int step = 0; step < 64; ++step)
    cost.observe(1 + step % 8, 0, took(1 + step % 8));
  for (int rows = 1; rows <= 8; ++rows)
    CHECK(base::seconds(*cost.predict(rows, 0)) == doctest::Approx(base::seconds(took(rows))));
}

TEST_CASE("below all sizes that were observed a step is tried on the line through the least two") {
  StepCost cost;
  cost.observe(5, 0, 15ms);
  CHECK(*cost.predict_boldly(1, 0) == 15ms);
  cost.observe(8, 0, 18ms);
  CHECK(*cost.predict(1, 0) == 15ms);
  CHECK(*cost.predict_boldly(1, 0) == 11ms);
  cost.observe(7, 0, 40ms); // more than in proportion
  CHECK(*cost.predict_boldly(1, 0) == 3ms);
}

TEST_CASE("what was measured beforehand says how the times that were observed go on") {
  StepCost cost({.weights = 0.010, .row = 0.0025}); // a bend at four rows
  cost.observe(4, 0, 20ms);                         // the machine takes twice as long
  CHECK(*cost.predict_boldly(1, 0) == 20ms);
  CHECK(*cost.predict_boldly(8, 0) == 40ms);
}

TEST_CASE("a step may take fifty times as long as it should, and never less than the least") {
  StepCost cost;
  CHECK(cost.timeout(1, 0, 1s) == scheduling::limits::first_step_timeout); // like none before
  cost.observe(4, 0, 10ms);
  CHECK(cost.timeout(4, 0, 1s) == 1s);
  CHECK(cost.timeout(4, 0, 100ms) == 500ms);
  CHECK(cost.timeout(400, 0, 1s) == 50s); // a prompt's rows take their time
}
