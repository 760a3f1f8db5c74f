// Which rows a step has.
#include "scheduling/limits.hpp"
#include "tests/scheduling/scheduler_world.hpp"

#include <random>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;
using World = SchedulerWorld;
using namespace std::chrono_literals;

namespace {

SchedulerConfig batching(Batching batching, int chunk = 16) {
  SchedulerConfig config = plain();
  config.batching = batching;
  config.prefill_chunk = chunk;
  return config;
}

speculation::SequenceSpec prompt_of(SequenceId id, int tokens, int max_tokens = 100) {
  speculation::SequenceSpec spec;
  spec.id = id;
  spec.prompt_tokens = tokens;
  spec.max_tokens = max_tokens;
  return spec;
}

std::vector<SequenceId> members(const Batch& batch) {
  std::vector<SequenceId> ids;
  for (const BatchEntry& entry : batch.entries)
    ids.push_back(entry.spec->id);
  return ids;
}

int prompt_rows(const Batch& batch) {
  int rows = 0;
  for (const BatchEntry& entry : batch.entries)
    if (entry.length <= entry.spec->prompt_tokens)
      rows += entry.length - entry.feed.cached;
  return rows;
}

/// One stream that decodes; another sequence's prompt of 900 tokens has come.
Batch beside_a_stream(World& world) {
  world.admit(prompt_of(1, 1));
  world.go_on(world.batch(), 10ms);
  world.admit(prompt_of(2, 900, 10));
  Batch batch = world.batch();
  while (batch.entries.size() == 1 && batch.entries[0].spec->id == 1) {
    world.go_on(batch, 10ms);
    batch = world.batch();
  }
  return batch;
}

using Ids = std::vector<SequenceId>;

} // namespace

TEST_CASE("hybrid batches have every stream in every step") {
  World world(batching(Batching::hybrid));
  Batch batch = beside_a_stream(world);
  for (int step = 0; step < 10; ++step) {
    CHECK(members(batch) == Ids{1, 2});
    world.go_on(batch, 20ms);
    batch = world.batch();
  }
}

TEST_CASE("with prefill first streams stand still while a prompt is read") {
  World world(batching(Batching::prefill_first, 300));
  Batch batch = beside_a_stream(world);
  for (int step = 0; step < 3; ++step) {
    CHECK(members(batch) == Ids{2});
    CHECK(prompt_rows(batch) == 300);
    world.go_on(batch, 20ms);
    batch = world.batch();
  }
  CHECK(members(batch) == Ids{1, 2});
}

TEST_CASE("with batches of whole requests nobody joins one that decodes") {
  World world(batching(Batching::request));
  world.admit(prompt_of(1, 1, 3));
  world.go_on(world.batch());
  world.admit(prompt_of(2, 1, 3));
  for (const SequenceId id : {1, 1, 2}) { // two tokens more, and its end
    const Batch batch = world.batch();
    CHECK(members(batch) == Ids{id});
    world.go_on(batch);
  }
}

TEST_CASE("an objective bounds the prompt's rows beside a stream, and no others") {
  SchedulerConfig config = batching(Batching::hybrid, 512);
  config.time_between_tokens = 50ms;
  World world(config);
  world.admit(prompt_of(3, 512, 1));
  Batch batch = world.batch();
  CHECK(prompt_rows(batch) == 512); // nobody waits for a token
  world.go_on(batch, 256ms);        // half a millisecond a row
  batch = beside_a_stream(world);
  CHECK(prompt_rows(batch) >= 32);
  CHECK(prompt_rows(batch) <= 80); // 96 would take just the objective
  CHECK((prompt_rows(batch) + 1) % scheduling::limits::row_tile == 0);
}

TEST_CASE("without an objective prompts leave streams their pace") {
  World world(batching(Batching::hybrid, 512));
  world.admit(prompt_of(3, 512, 1));
  world.go_on(world.batch(), 512ms);    // a millisecond a row, and none is cheaper
  Batch batch = beside_a_stream(world); // alone 10 ms
  for (int step = 0; step < 8; ++step) {
    CHECK(prompt_rows(batch) <= 32);
    CHECK(prompt_rows(batch) >= scheduling::limits::row_tile - 1);
    world.go_on(batch, 10ms + prompt_rows(batch) * 1ms);
    batch = world.batch();
  }
}

TEST_CASE("a row budget is kept, and always leaves a prompt a tile") {
  for (const auto& [budget, rows] :
       {std::pair(64, 63), std::pair(1, scheduling::limits::row_tile)}) {
    SchedulerConfig config = batching(Batching::hybrid, 512);
    config.row_budget = budget;
    World world(config);
    CHECK(prompt_rows(beside_a_stream(world)) == rows);
  }
}

namespace {

/// A target that is slow at times: for some steps, by up to ten times, as where a machine has
/// something else to do.
class SlowAtTimes {
public:
  explicit SlowAtTimes(std::uint64_t seed) : random_(seed) {}

  /// Of a step of so many rows, of which the first costs as much as ten others.
  base::Duration took(int rows) {
    if (steps_-- <= 0) {
      slow_ = below(4) == 0 ? double(1 + below(10)) : 1.0;
      steps_ = int(1 + below(20));
    }
    return base::from_seconds(slow_ * longer_than_one(rows) * 10e-3);
  }
  /// What a step of one row would take just now.
  base::Duration plain() const { return base::from_seconds(slow_ * 10e-3); }
  static double longer_than_one(int rows) { return (9.0 + rows) / 10; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

private:
  std::mt19937_64 random_;
  double slow_ = 1;
  int steps_ = 0;
};

int rows_of(const Batch& batch) {
  int rows = 0;
  for (const BatchEntry& entry : batch.entries)
    rows += entry.length - entry.feed.cached + entry.round.window;
  return rows;
}

bool decodes(const Batch& batch, SequenceId id) {
  return std::ranges::any_of(batch.entries, [id](const BatchEntry& entry) {
    return entry.spec->id == id && entry.round.judges;
  });
}

/// The longest time between two tokens of a stream beside two prompts of 1,500 tokens, in plain
/// steps of just then.
double longest_gap(std::uint64_t seed) {
  SchedulerConfig config = batching(Batching::hybrid, 512);
  config.max_model_len = 4000;
  World world(config);
  SlowAtTimes device(seed);
  const auto step = [&] {
    const Batch batch = world.batch();
    const base::Duration took = device.took(rows_of(batch));
    world.now += took;
    world.go_on(batch, took);
    return std::pair(batch, took);
  };
  world.admit(prompt_of(1, 1 + int(device.below(600)), 3000));
  for (auto alone = 10 + device.below(40); alone > 0; --alone)
    step();
  world.admit(prompt_of(2, 1500, 10));
  world.admit(prompt_of(3, 1500, 10));
  double gap = 0;
  double longest = 0;
  for (bool reading = true; reading;) {
    const auto [batch, took] = step();
    gap += base::seconds(took) / base::seconds(device.plain());
    if (decodes(batch, 1))
      longest = std::max(longest, std::exchange(gap, 0));
    reading = !decodes(batch, 2) || !decodes(batch, 3);
  }
  return longest;
}

} // namespace

TEST_CASE("beside long prompts a stream stands still for no longer than is said, whenever the "
          "device is slow") {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed)
    worst = std::max(worst, longest_gap(seed));
  MESSAGE("longest gap, in plain steps: ", worst);
  CHECK(worst <= 2 * scheduling::limits::prompts_lengthen);
}

TEST_CASE("prompts leave a stream its pace that is held up by its draft") {
  SchedulerConfig config = drafting(SpeculationMode::sync, 4);
  config.prefill_chunk = 512;
  config.max_model_len = 4000;
  World world(config);
  world.admit(prompt_of(9, 512, 1));
  world.go_on(world.batch(), 512ms); // a millisecond a row
  const speculation::ChainRef chain = world.begin_drafting(6, 6, 4);
  chain->bind(5); // and draws it late
  world.admit(prompt_of(2, 900));
  for (int step = 0; step < 3; ++step) {
    const Batch batch = world.batch();
    CHECK(members(batch) == Ids{2});
    CHECK(prompt_rows(batch) <= 32);
    world.go_on(batch, 30ms);
  }
  chain->put(4, 5, nullptr);
  CHECK(members(world.batch_of(2)) == Ids{1, 2});
}
