// Which rows a step has.
#include "scheduling/limits.hpp"
#include "tests/scheduling/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;
using BatchingWorld = SchedulerWorld;
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
Batch beside_a_stream(BatchingWorld& world) {
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

using SequenceIds = std::vector<SequenceId>;

} // namespace

TEST_CASE("hybrid batches have every stream in every step") {
  BatchingWorld world(batching(Batching::hybrid));
  Batch batch = beside_a_stream(world);
  for (int step = 0; step < 10; ++step) {
    CHECK(members(batch) == SequenceIds{1, 2});
    world.go_on(batch, 20ms);
    batch = world.batch();
  }
}

TEST_CASE("with prefill first streams stand still while a prompt is read") {
  BatchingWorld world(batching(Batching::prefill_first, 300));
  Batch batch = beside_a_stream(world);
  for (int step = 0; step < 3; ++step) {
    CHECK(members(batch) == SequenceIds{2});
    CHECK(prompt_rows(batch) == 300);
    world.go_on(batch, 20ms);
    batch = world.batch();
  }
  CHECK(members(batch) == SequenceIds{1, 2});
}

TEST_CASE("with batches of whole requests nobody joins one that decodes") {
  BatchingWorld world(batching(Batching::request));
  world.admit(prompt_of(1, 1, 3));
  world.go_on(world.batch());
  world.admit(prompt_of(2, 1, 3));
  for (const SequenceId id : {1, 1, 2}) { // two tokens more, and its end
    const Batch batch = world.batch();
    CHECK(members(batch) == SequenceIds{id});
    world.go_on(batch);
  }
}

TEST_CASE("an objective bounds the prompt's rows beside a stream, and no others") {
  SchedulerConfig config = batching(Batching::hybrid, 512);
  config.time_between_tokens = 50ms;
  BatchingWorld world(config);
  world.admit(prompt_of(3, 512, 1));
  Batch batch = world.batch();
  CHECK(prompt_rows(batch) == 512); // nobody waits for a token
  world.go_on(batch, 256ms);        // half a millisecond a row
  batch = beside_a_stream(world);
  CHECK(prompt_rows(batch) >= 32);
  CHECK(prompt_rows(batch) <= 80); // 96 would take just the objective
  CHECK((prompt_rows(batch) + 1) % scheduling::limits::row_tile == 0);
}

TEST_CASE("the first step of a stream shows what it takes without a prompt's rows") {
  BatchingWorld world(batching(Batching::hybrid, 512));
  world.admit(prompt_of(1, 512));
  world.admit(prompt_of(2, 900, 10));
  world.go_on(world.batch(), 512ms); // a millisecond a row: how much of that is the weights?
  Batch batch = world.batch();
  CHECK(members(batch) == SequenceIds{1, 2});
  CHECK(prompt_rows(batch) == scheduling::limits::row_tile);
  world.go_on(batch, 300ms); // most of it
  CHECK(prompt_rows(world.batch()) > 256);
}

TEST_CASE("without an objective prompts leave streams their pace") {
  BatchingWorld world(batching(Batching::hybrid, 512));
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

TEST_CASE("while requests wait for a place prompts do not leave streams their pace") {
  const auto took = [](int rows) {
    return 10ms + rows * 100us; // so a large step is cheap by the row
  };
  for (const bool waits : {false, true}) {
    SchedulerConfig config = batching(Batching::hybrid, 512);
    config.max_num_seqs = 2;
    BatchingWorld world(config);
    world.admit(prompt_of(3, 512, 1));
    world.go_on(world.batch(), took(512));
    Batch batch = beside_a_stream(world);
    if (waits)
      world.admit(prompt_of(4, 900, 10));
    int most = 0;
    for (int step = 0; step < 8; ++step) {
      most = std::max(most, prompt_rows(batch));
      world.go_on(batch, took(prompt_rows(batch) + 1));
      batch = world.batch();
    }
    CAPTURE(waits);
    CHECK((most > 300) == waits);
  }
}

TEST_CASE("a row budget is kept, and always leaves a prompt a tile") {
  for (const auto& [budget, rows] :
       {std::pair(64, 63), std::pair(1, scheduling::limits::row_tile)}) {
    SchedulerConfig config = batching(Batching::hybrid, 512);
    config.row_budget = budget;
    BatchingWorld world(config);
    CHECK(prompt_rows(beside_a_stream(world)) == rows);
  }
}

TEST_CASE("prompts leave a stream its pace that is held up by its draft") {
  SchedulerConfig config = drafting(SpeculationMode::sync, 4);
  config.prefill_chunk = 512;
  config.max_model_len = 4000;
  BatchingWorld world(config);
  world.admit(prompt_of(9, 512, 1));
  world.go_on(world.batch(), 512ms); // a millisecond a row
  const speculation::ChainRef chain = world.begin_drafting(6, 6, 4);
  chain->bind(5); // and draws it late
  world.admit(prompt_of(2, 900));
  for (int step = 0; step < 3; ++step) {
    const Batch batch = world.batch();
    CHECK(members(batch) == SequenceIds{2});
    CHECK(prompt_rows(batch) <= 32);
    world.go_on(batch, 30ms);
  }
  chain->put(4, 5, nullptr);
  Batch batch = world.batch(); // perhaps one that was on its way
  if (batch.entries.size() == 1) {
    world.go_on(batch, 30ms);
    batch = world.batch();
  }
  CHECK(members(batch) == SequenceIds{1, 2});
}
