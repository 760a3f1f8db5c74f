// Promises 1, 2 and 4 over thousands of seeded runs (docs/testing.md).
#include "speculation/lookup/ngram_drafter.hpp"
#include "speculation/lookup/suffix_drafter.hpp"
#include "tests/simulation/campaign.hpp"
#include "tests/simulation/distribution.hpp"
#include "tests/simulation/witness.hpp"
#include "tests/support/effort.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;
using speculation::NgramDrafter;
using speculation::SuffixDrafter;

namespace {

// Sanitizers get too few to reach every rare path.
constexpr std::size_t runs = sanitized ? 200 : 3000;
constexpr bool all_paths = !sanitized;

/// Right as often as a suffix is, and then says what is no token.
class Failing final : public Drafter {
public:
  void propose(std::span<DraftTask* const> tasks) override {
    if (++calls_ % 4 == 0)
      throw std::runtime_error("no idea");
    for (DraftTask* task : tasks) {
      while (task->wanted() > 1)
        task->propose(task->context().back());
      task->propose(-1);
    }
  }

private:
  int calls_ = 0;
};

} // namespace

TEST_CASE("whatever goes wrong, every request ends once, with the tokens of plain decoding") {
  const Campaign campaign = run_campaign({.first = 1, .runs = runs, .threads = 2});
  MESSAGE(campaign.text());
  CAPTURE(campaign.failing); // ./dev simulate --seed N --log
  CHECK(campaign.failed == 0);
  CHECK(campaign.runs == runs);
  for (const char* probe : probe_names()) {
    CAPTURE(probe);
    CHECK((campaign.probes.at(probe) > 0 || !all_paths));
  }
  for (const FaultField& field : local_fault_fields()) {
    CAPTURE(field.name);
    CHECK(campaign.faults.contains(field.name));
  }
  const auto median = [](const std::vector<int>& sorted) { return sorted[sorted.size() / 2]; };
  CHECK(median(campaign.requests) >= 4);
  CHECK(median(campaign.tokens) >= 150);
  CHECK(median(campaign.windows) >= 2);
  CHECK(median(campaign.faults_each) >= 1);
}

TEST_CASE("a target's device that is lost for good costs no request where there is a standby") {
  FaultPlan plan;
  plan.lost = 0.05;
  plan.faults_max = 1;
  int moved = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const Report report = simulate(seed, plan);
    CHECK_FALSE(report.failed());
    CHECK(report.ends.count("unavailable") == 0);
    moved += report.probes.count("target moved to its standby");
  }
  CHECK(moved >= 5);
}

TEST_CASE("the same where drafts are looked up, or come from a drafter that fails") {
  struct Kind {
    const char* name;
    std::function<std::shared_ptr<Drafter>()> make;
  };
  const Kind kinds[] = {
      {"suffix", [] { return std::make_shared<SuffixDrafter>(4096); }}, // outputs soon go again
      {"ngram", [] { return std::make_shared<NgramDrafter>(); }},
      {"fails", [] { return std::make_shared<Failing>(); }},
  };
  int disabled = 0;
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(kind.name));
    int kills = 0;
    int failed = 0;
    for (std::uint64_t seed = 1; seed <= runs / 10; ++seed) {
      const Report report = simulate(seed, draw_plan(seed), {.drafter = kind.make});
      failed += report.failed();
      if (report.failed())
        MESSAGE(kind.name, ", seed ", seed, ": ", report.failures.front());
      kills += report.faults_total;
      disabled += report.probes.count("draft disabled because it kept failing");
    }
    CHECK(failed == 0);
    CHECK(kills > int(runs / 10));
  }
  CHECK(disabled > 0);
}

TEST_CASE("the same where the draft is on another machine, whatever the way there does") {
  const Campaign campaign =
      run_campaign({.first = 1, .runs = runs, .threads = 2, .elsewhere = Elsewhere::draft});
  MESSAGE(campaign.text());
  CAPTURE(campaign.failing); // ./dev simulate --node --seed N --log
  CHECK(campaign.failed == 0);
  for (const char* happened :
       {"connections", "connection refused", "nobody answered", "connection cut in a frame",
        "connection cut between frames", "parted one way", "parted both ways",
        "half open for the engine", "half open for both", "refused by a node with another model",
        "fork that came true and went on"}) {
    CAPTURE(std::string(happened));
    CHECK((campaign.probes.count(happened) > 0 || !all_paths));
  }
  for (const FaultField& field : fault_fields().subspan(local_fault_fields().size())) {
    CAPTURE(field.name);
    CHECK(campaign.faults.contains(field.name));
  }
}

TEST_CASE("the same where stages of the target are on other machines, which come and go") {
  const Campaign campaign =
      run_campaign({.first = 1, .runs = runs / 3, .threads = 2, .elsewhere = Elsewhere::several});
  MESSAGE(campaign.text());
  CAPTURE(campaign.failing); // ./dev simulate --machines --seed N --log
  CHECK(campaign.failed == 0);
  for (const char* happened :
       {"connection refused", "nobody answered", "refused by a node with another model",
        "refused by a node with other weights", "stage lost with a pass under way",
        "stage back within the patience", "stage back behind the patience",
        "request given up behind the patience", "reserve took the stage",
        "reserve has the stage at the end", "pass in several pieces",
        "pass that ended before it was sent", "fork that came true and went on",
        "step under way that went on as a fork"}) {
    CAPTURE(std::string(happened));
    CHECK((campaign.probes.count(happened) > 0 || !all_paths));
  }
  for (const FaultField& field : fault_fields().subspan(local_fault_fields().size())) {
    CAPTURE(field.name);
    CHECK(campaign.faults.contains(field.name));
  }
}

TEST_CASE("a stage on another machine that is lost, or stands still, once costs no request") {
  FaultPlan plan;
  plan.faults_max = 1;
  int lost = 0;
  int stuck = 0;
  for (const auto fault : {&FaultPlan::cut, &FaultPlan::rebooted, &FaultPlan::stuck})
    for (std::uint64_t seed = 1; seed <= (sanitized ? 10 : 60); ++seed) {
      CAPTURE(seed);
      FaultPlan one = plan;
      one.*fault = 0.02;
      const Report report = simulate(seed, one, {.elsewhere = Elsewhere::several});
      CHECK_FALSE(report.failed());
      const bool waits_long = draw_workload(seed, Elsewhere::several).faults.stage_patience >= 10s;
      CHECK((report.ends.count("unavailable") == 0 || !waits_long));
      lost += report.probes.count("stage lost with a pass under way");
      stuck += report.faults.count("stuck");
    }
  CHECK((lost >= 60 || !all_paths));
  CHECK((stuck >= 10 || !all_paths));
}

TEST_CASE("rejection keeps the target's distribution while actors die") {
  const auto all = rejection_under_kills(effort(40'000));
  for (const Fit& fit : all) {
    CAPTURE(fit.name);
    CHECK(fit.chi_square.p_value > false_alarm);
    CHECK(fit.kills > fit.outputs / 10);
    MESSAGE(fit.text());
  }
}

TEST_CASE("a seed repeats its run, message for message") {
  for (std::uint64_t seed = 1; seed <= (sanitized ? 4 : 20); ++seed) {
    CAPTURE(seed);
    const FaultPlan plan = draw_plan(seed);
    const Report first = simulate(seed, plan, {.log = true});
    const Report again = simulate(seed, plan, {.log = true});
    CHECK(first.log == again.log);
    CHECK(first.log.size() > 1000);
    CHECK(simulate(seed, plan).steps == first.steps); // also without a log
    const FaultPlan there = draw_plan(seed, Elsewhere::several);
    const RunOptions logged{.log = true, .elsewhere = Elsewhere::several};
    CHECK(simulate(seed, there, logged).log == simulate(seed, there, logged).log);
  }
}
