// Pages that sequences wait for, lack and give up for each other.
#include "scheduling/limits.hpp"
#include "tests/scheduling/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;
using ResidencyWorld = SchedulerWorld;

TEST_CASE("pages for a long prompt come chunk by chunk where attention has a window") {
  SchedulerConfig parts = plain();
  parts.attention_window = 20;
  std::vector<KvGrow> grown; // outlives the mock that fills it
  ResidencyWorld world(parts);
  world.on_reserve = [](const KvReserve& asked) {
    KvGrant granted = grant(asked.sequence, asked.capacity);
    granted.tables[target_pool] = table(std::min(asked.capacity, asked.windowed_ahead));
    return granted;
  };
  world.on_grow = [&](const KvGrow& more) {
    grown.push_back(more);
    return grant(more.sequence, more.windowed_capacity);
  };
  world.admit(1, Tokens(300, 5), 10);
  for (int read = 0; read < 300;) { // 16 at a time, never more than there are pages for
    const Batch batch = world.batch();
    const BatchEntry& entry = batch.entries.at(0);
    CHECK(entry.feed.cached == read);
    CHECK(entry.length - entry.feed.cached <= 16);
    CHECK(entry.feed.pages->capacity() >= entry.length);
    read = entry.length;
    world.decode(batch, entry.round.judges ? Tokens{7} : Tokens{});
  }
  REQUIRE(grown.size() > 2);
  for (std::size_t i = 0; i < grown.size(); ++i) {
    CHECK(grown[i].windowed_capacity <=
          grown[i].read + 2 * 16 + 2 * scheduling::limits::tokens_ahead);
    CHECK((i == 0 || grown[i].read > grown[i - 1].read));
  }
}

TEST_CASE("refused pages are asked for again, and a request that nobody can serve fails") {
  ResidencyWorld world(plain());
  int refusals = 0;
  world.on_reserve = [&](const KvReserve& asked) {
    ++refusals;
    return refusal(asked.sequence);
  };
  world.admit(1, {1});
  const auto failed = world.facade.take<Failed>();
  CHECK(failed.sequence == 1);
  CHECK(failed.error.code == ErrorCode::out_of_memory);
  CHECK(refusals == scheduling::limits::reservation_tries_max + 1);
}

TEST_CASE("where steps that do not end hold the pages, the error says so") {
  const SchedulerConfig config = plain();
  config.telemetry->kv_pages_quarantined = 7; // as the cache manager counts them
  ResidencyWorld world(config);
  world.on_reserve = [](const KvReserve& asked) { return refusal(asked.sequence); };
  world.admit(1, {1});
  const Error error = world.facade.take<Failed>().error;
  CHECK(error.message.find("hold 7 pages") != std::string::npos);
  CHECK(error.hint.find("kv_memory_bytes") == std::string::npos);
}

TEST_CASE("when pages run out the youngest gives way, and is recomputed from all its tokens") {
  ResidencyWorld world(plain());
  bool full = false;
  world.on_reserve = [&](const KvReserve& asked) {
    return full ? refusal(asked.sequence) : grant(asked.sequence, 8);
  };
  world.on_grow = [](const KvGrow& asked) { return refusal(asked.sequence); };
  world.admit(1, Tokens(6, 1));
  world.admit(2, Tokens(6, 2));
  Tokens second(6, 2); // with what is committed of it
  std::optional<KvRelease> released;
  while (!released) {
    const Batch batch = world.batch();
    std::vector<Verdict> verdicts;
    for (const BatchEntry& entry : batch.entries)
      verdicts.push_back(ResidencyWorld::verdict(entry, {5}));
    full = true;
    world.answer(batch, verdicts);
    for (const Committed& news : world.facade.take<Commits>().sequences)
      if (news.sequence == 2)
        second.insert(second.end(), news.tokens.begin(), news.tokens.end());
    world.run_until([&] { return !world.target.empty(); });
    released = world.kv.find<KvRelease>();
  }
  CHECK(released->sequence == 2);
  CHECK(released->valid[target_pool] == int(second.size()) - 1); // what it computed may be kept
  full = false;
  world.abandon(1);
  std::optional<KvReserve> asked;
  world.run_until(
      [&] { return (asked = world.kv.find<KvReserve>()) && asked->length == int(second.size()); });
  REQUIRE(asked);
  CHECK(asked->sequence == 2);
  const auto log = asked->log->first(asked->length);
  CHECK(Tokens(log.begin(), log.end()) == second);
}

TEST_CASE("who runs and lacks pages gets them before who made room for it comes back") {
  ResidencyWorld world(plain());
  std::map<SequenceId, int> held;
  const auto room_without = [&](SequenceId id) {
    while (const auto released = world.kv.find<KvRelease>())
      held.erase(released->sequence);
    int room = 18; // for one to its end, or for both to begin
    for (const auto& [other, tokens] : held)
      room -= other == id ? 0 : tokens;
    return room;
  };
  const auto answer = [&](SequenceId id, int tokens, int room) {
    if (tokens > room)
      return refusal(id);
    held[id] = tokens;
    return grant(id, tokens);
  };
  world.on_reserve = [&](const KvReserve& asked) {
    return answer(asked.sequence, asked.length + 2, room_without(asked.sequence));
  };
  world.on_grow = [&](const KvGrow& asked) {
    return answer(asked.sequence, asked.capacity, room_without(asked.sequence));
  };
  world.admit(1, Tokens(6, 1), 8);
  world.admit(2, Tokens(6, 2), 8);
  for (std::size_t said = 0; said < 16;) {
    world.go_on(world.batch());
    for (const Committed& news : world.facade.take<Commits>().sequences)
      said += news.tokens.size();
  }
}

TEST_CASE("who lacks pages goes on asking, though it is woken for something else meanwhile") {
  SchedulerConfig config = drafting(SpeculationMode::off, 2);
  config.faults.stall_patience = std::chrono::milliseconds(15); // an alarm between two tries
  ResidencyWorld world(config);
  world.on_reserve = [](const KvReserve& asked) { return grant(asked.sequence, 8); };
  int tries = 0;
  bool forks_let_go = false; // of chains that are over: they may have the pages
  world.on_grow = [&](const KvGrow& asked) {
    forks_let_go |= world.draft.find<Forget>().has_value();
    return ++tries < 400 ? refusal(asked.sequence) : grant(asked.sequence, asked.capacity);
  };
  world.admit(1, Tokens(6, 1), 8);
  for (int said = 0; said < 8; ++said) {
    world.go_on(world.batch());
    world.facade.take<Commits>();
  }
  CHECK(tries >= 400);
  CHECK(world.now < base::TimePoint(std::chrono::seconds(5)));
  CHECK(forks_let_go);
}
