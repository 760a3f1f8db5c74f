// The manager under random use, against a model: who holds which page, and what was written to it.
#include "tests/scheduling/page_world.hpp"

#include <doctest/doctest.h>
#include <iterator>

#include <algorithm>
#include <map>
#include <set>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;

namespace {

struct Live {
  Tokens tokens;
  PerPool<gpu::PageTableRef> tables;
};

class RandomUse {
public:
  RandomUse(std::uint64_t seed, bool shares) : shares_(shares), random_(seed) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      switch (random_() % 8) {
      case 0:
      case 1:
      case 2: reserve(); break;
      case 3: grow(); break;
      case 4: publish(); break;
      case 5: release(); break;
      case 6: begin_step(); break;
      case 7: end_step(); break;
      }
      check_ledgers();
    }
    finish();
  }
  int refusals() const { return refusals_; }
  int shared_pages() const { return shared_pages_; }
  int quarantines() const { return quarantines_; }

private:
  static constexpr std::size_t pages = 24;

  void reserve() {
    const SequenceId id = random_() % 12;
    if (live_.contains(id))
      return;
    const Tokens tokens = random_tokens(random_, random_() % 30 + 1, 2);
    const int capacity = int(tokens.size() + random_() % 10);
    const auto before = ledgers();
    const KvGrant grant = world_.reserve(id, tokens, capacity);
    if (!grant.granted)
      return refused(before, capacity);
    REQUIRE(grant.tables[target_pool]->capacity() >= capacity);
    REQUIRE(grant.tables[draft_pool]->capacity() >= capacity);
    REQUIRE(grant.cached[target_pool] < int(tokens.size()));
    REQUIRE(grant.cached[draft_pool] <= grant.cached[target_pool]);
    live_[id] = {tokens, {grant.tables[target_pool], grant.tables[draft_pool]}};
    check_shared(live_[id], target_pool, grant.cached[target_pool]);
    check_shared(live_[id], draft_pool, grant.cached[draft_pool]);
  }

  // What is shared was written with just these tokens, and the rest is nobody else's.
  void check_shared(const Live& sequence, Pool pool, int cached) {
    const Ids& ids = sequence.tables[pool]->ids;
    const auto shared = std::size_t(cached / PageWorld::page_tokens);
    shared_pages_ += int(shared);
    std::set<std::uint32_t> others = holders(pool, &sequence);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i < shared)
        REQUIRE(written_[pool][ids[i]] == prefix(sequence.tokens, i));
      else
        REQUIRE_FALSE(others.contains(ids[i]));
    }
    REQUIRE(std::set(ids.begin(), ids.end()).size() == ids.size());
    write(sequence, pool);
  }

  void write(const Live& sequence, Pool pool) {
    for (std::size_t i = 0; i < sequence.tables[pool]->ids.size(); ++i)
      written_[pool][sequence.tables[pool]->ids[i]] = prefix(sequence.tokens, i);
  }

  static Tokens prefix(const Tokens& tokens, std::size_t page) {
    return first(tokens, std::min(tokens.size(), (page + 1) * PageWorld::page_tokens));
  }

  // The sequence reads on: tokens that its pages hold stay, others follow.
  void grow() {
    if (live_.empty())
      return;
    auto& [id, sequence] = *pick(live_);
    const int capacity = int(sequence.tokens.size() + random_() % 12);
    const auto before = ledgers();
    const int had = sequence.tables[target_pool]->capacity();
    const KvGrant grant = world_.cache.grow({id, capacity, capacity});
    if (!grant.granted)
      return refused(before, capacity - had);
    REQUIRE(grant.tables[target_pool]->capacity() >= std::max(had, capacity));
    for (std::size_t i = 0; i < sequence.tables[target_pool]->ids.size(); ++i)
      REQUIRE(grant.tables[target_pool]->ids[i] == sequence.tables[target_pool]->ids[i]);
    sequence.tables = {grant.tables[target_pool], grant.tables[draft_pool]};
    while (int(sequence.tokens.size()) < capacity)
      sequence.tokens.push_back(TokenId(random_() % 2));
    write(sequence, target_pool);
    write(sequence, draft_pool);
  }

  void publish() {
    if (live_.empty() || !shares_)
      return;
    auto& [id, sequence] = *pick(live_);
    const auto log = log_of(sequence.tokens);
    world_.cache.publish({id, log, {valid(sequence), valid(sequence)}});
  }
  void release() {
    if (live_.empty())
      return;
    const auto which = pick(live_);
    const Live& sequence = which->second;
    const bool right = shares_ && random_() % 4 != 0;
    world_.cache.release({which->first,
                          right ? log_of(sequence.tokens) : nullptr,
                          {valid(sequence), valid(sequence)}});
    live_.erase(which);
  }
  int valid(const Live& sequence) { return int(random_() % (sequence.tokens.size() + 1)); }

  void begin_step() {
    if (!live_.empty() && steps_.size() < 4)
      steps_.push_back(pick(live_)->second.tables);
  }
  void end_step() {
    if (!steps_.empty())
      steps_.erase(steps_.begin() + std::ptrdiff_t(random_() % steps_.size()));
  }

  // Refused only where even all that is free or cached would not do; and nothing has changed.
  void refused(const PerPool<KvLedger>& before, int tokens) {
    ++refusals_;
    const auto wanted = std::size_t((tokens + PageWorld::page_tokens - 1) / PageWorld::page_tokens);
    const auto after = ledgers();
    const auto room = [&](Pool pool) { return before[pool].free + unheld_cached(pool); };
    CHECK(wanted > std::min(room(target_pool), room(draft_pool)));
    for (const Pool pool : both_pools) {
      CHECK(after[pool].free == before[pool].free);
      CHECK(after[pool].cached == before[pool].cached);
      CHECK(after[pool].used == before[pool].used);
    }
  }

  /// Returns how many pages could be evicted at least: cached ones that no step holds.
  std::size_t unheld_cached(Pool pool) {
    std::set<std::uint32_t> in_steps;
    for (const auto& step : steps_)
      in_steps.insert(step[pool]->ids.begin(), step[pool]->ids.end());
    const std::size_t cached = world_.cache.ledger(pool).cached;
    return cached - std::min(cached, in_steps.size());
  }

  std::set<std::uint32_t> holders(Pool pool, const Live* except = nullptr) {
    std::set<std::uint32_t> ids;
    for (const auto& [id, sequence] : live_)
      if (&sequence != except)
        ids.insert(sequence.tables[pool]->ids.begin(), sequence.tables[pool]->ids.end());
    for (const auto& step : steps_)
      ids.insert(step[pool]->ids.begin(), step[pool]->ids.end());
    return ids;
  }

  PerPool<KvLedger> ledgers() {
    return {world_.cache.ledger(target_pool), world_.cache.ledger(draft_pool)};
  }

  void check_ledgers() {
    for (const Pool pool : both_pools) {
      std::set<std::uint32_t> used;
      for (const auto& [id, sequence] : live_)
        used.insert(sequence.tables[pool]->ids.begin(), sequence.tables[pool]->ids.end());
      const std::size_t in_steps = holders(pool).size() - used.size();
      const KvLedger ledger = world_.cache.ledger(pool);
      REQUIRE(ledger.total == pages);
      REQUIRE(ledger.total == ledger.free + ledger.cached + ledger.used + ledger.quarantined);
      REQUIRE(ledger.used == used.size());
      REQUIRE(ledger.quarantined <= in_steps);
      if (!shares_)
        REQUIRE(ledger.quarantined == in_steps);
      quarantines_ += ledger.quarantined > 0;
    }
  }

  void finish() {
    while (!live_.empty())
      release();
    steps_.clear();
    for (const Pool pool : both_pools) {
      const KvLedger ledger = world_.cache.ledger(pool);
      CHECK(ledger.used == 0);
      CHECK(ledger.quarantined == 0);
      CHECK(ledger.free + ledger.cached == pages);
      if (!shares_)
        CHECK(ledger.cached == 0);
    }
    CHECK(world_.reserve(99, {1}, int(pages) * PageWorld::page_tokens).granted);
  }

  template <class Map>
  typename Map::iterator pick(Map& map) {
    return std::next(map.begin(), std::ptrdiff_t(random_() % map.size()));
  }

  bool shares_;
  std::mt19937_64 random_;
  PageWorld world_{pages, pages};
  std::map<SequenceId, Live> live_;
  std::vector<PerPool<gpu::PageTableRef>> steps_;
  PerPool<std::map<std::uint32_t, Tokens>> written_{both_pools.size()};
  int refusals_ = 0;
  int shared_pages_ = 0;
  int quarantines_ = 0;
};

} // namespace

TEST_CASE("under any use pages add up, nobody shares another's, and nothing leaks") {
  for (const bool shares : {false, true}) {
    int refusals = 0, shared = 0, quarantines = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed);
      RandomUse use(seed, shares);
      use.run(300);
      refusals += use.refusals();
      shared += use.shared_pages();
      quarantines += use.quarantines();
    }
    CHECK(refusals > 100);
    CHECK((shared > 100) == shares);
    CHECK(quarantines > 100);
  }
}
