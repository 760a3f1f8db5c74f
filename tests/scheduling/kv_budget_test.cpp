#include "scheduling/kv_budget.hpp"
#include "scheduling/limits.hpp"
#include "tests/support/says.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::scheduling;
using testing::says;

namespace {

KvDemand demand_of(std::size_t memory) {
  KvDemand demand;
  demand.memory = memory;
  demand.max_model_len = 1000;
  demand.max_num_seqs = 4;
  demand.prefill_chunk = 32;
  demand.page_tokens = 10;
  demand.pools = {{.page_bytes = 100}, {.page_bytes = 10}};
  return demand;
}

} // namespace

TEST_CASE("both pools hold as many sequences, and no more than there can be") {
  const auto some = kv_budget(demand_of(2 * 101 * 110));
  REQUIRE(some);
  CHECK(some->pages[0] == 202);
  CHECK(some->pages[1] == 202);
  const auto plenty = kv_budget(demand_of(1 << 30));
  REQUIRE(plenty);
  CHECK(plenty->pages[0] == 404);
  CHECK(plenty->pages[1] == 404);
}

TEST_CASE("states take half of the memory at most, and there are two for each sequence at most") {
  KvDemand demand = demand_of(2 * 101 * 110);
  CHECK(kv_budget(demand)->states == 0);
  demand.state_bytes = 1000;
  CHECK(kv_budget(demand)->states == 8);
  CHECK(kv_budget(demand)->pages[0] == 202 - 8000 / 110 - 1);
  CHECK(kv_budget(demand)->full_length == 1);
  demand.state_bytes = 4000;
  CHECK(kv_budget(demand)->states == 2); // The pages of one sequence are needed, too.
  demand.memory = 101 * 110 + 3999;
  REQUIRE_FALSE(kv_budget(demand));
  CHECK(says(kv_budget(demand).error(), "at least 15110"));
  demand.memory = 101 * 110 + 4000;
  CHECK(kv_budget(demand)->states == 1);
  CHECK(kv_budget(demand)->pages[0] == 101);
}

TEST_CASE("where one sequence does not fit, the error says how much is needed") {
  const auto refused = kv_budget(demand_of(101 * 110 - 1));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::out_of_memory);
  CHECK(says(refused.error(), "at least 11110"));
  CHECK(kv_budget(demand_of(101 * 110)));
}

TEST_CASE("unasked, the cache takes what all sequences need, or a quarter of what is there") {
  KvDemand demand = demand_of(0);
  demand.available = 1 << 30;
  CHECK(kv_budget(demand)->pages[0] == 404);
  demand.available = 4 * 2 * 101 * 110;
  CHECK(kv_budget(demand)->pages[0] == 202);
  demand.available = 0; // one sequence all the same: the allocation will tell
  CHECK(kv_budget(demand)->pages[0] == 101);
}

TEST_CASE("a window makes the target's share of a sequence smaller, not the draft's") {
  KvDemand demand = demand_of(0);
  demand.available = 1 << 30;
  demand.pools[0].attention_window = 100;
  const auto pages = kv_budget(demand);
  REQUIRE(pages);
  CHECK(pages->pages[0] < 4 * 60);
  CHECK(pages->pages[1] == 404);
}

TEST_CASE("forks have pages of the draft's beyond its sequences'") {
  KvDemand demand = demand_of(2 * 101 * 110 + 30 * 10);
  demand.pools[1].fork_pages = 30;
  const auto pages = kv_budget(demand);
  REQUIRE(pages);
  CHECK(pages->pages[0] == 202);
  CHECK(pages->pages[1] == 232);
}

TEST_CASE("rows of q are in the budget, as many sequences' as there are pages for") {
  KvDemand demand = demand_of(2 * (101 * 110 + 10 * 50));
  demand.q_row_bytes = 50;
  demand.q_rows = 10;
  const auto two = kv_budget(demand);
  REQUIRE(two);
  CHECK(two->pages[0] == 202);
  CHECK(two->q_rows == 20);
  demand.memory += 10 * 50; // what its forks take is there beyond one sequence's
  demand.fork_q_rows = 10;
  CHECK(kv_budget(demand)->q_rows == 30);
  demand.memory = 101 * 110 + 10 * 50 - 1;
  const auto refused = kv_budget(demand);
  REQUIRE_FALSE(refused);
  CHECK(says(refused.error(), "at least 11610"));
  demand.memory = 1 << 30;
  CHECK(kv_budget(demand)->q_rows == 4 * 10 + 10);
}

TEST_CASE(
    "a pool more has its share as well, and none at all beside the target's is no case apart") {
  KvDemand demand = demand_of(2 * 101 * 115);
  demand.pools.push_back({.page_bytes = 5});
  CHECK(kv_budget(demand)->pages == PerPool<std::size_t>{202, 202, 202});
  demand.pools.resize(1);
  demand.memory = 3 * 101 * 100;
  CHECK(kv_budget(demand)->pages == PerPool<std::size_t>{303});
}

TEST_CASE("what is said to have room at a time is what the pages of the smallest pool hold") {
  KvDemand demand = demand_of(3 * 101 * 110);
  CHECK(kv_budget(demand)->full_length == 3);
  demand.memory += 90 * 110; // short of another one, which needs no page but those of its tokens
  CHECK(kv_budget(demand)->full_length == 3);
  demand.memory += 10 * 110;
  CHECK(kv_budget(demand)->full_length == 4);
  demand.memory = 1 << 30;
  CHECK(kv_budget(demand)->full_length == 4); // max_num_seqs
  demand.memory = 2 * 101 * 110 + 80 * 10;
  demand.pools[1].fork_pages = 80; // pages of the draft's alone are room for nobody
  CHECK(kv_budget(demand)->pages[1] == 282);
  CHECK(kv_budget(demand)->full_length == 2);
}

TEST_CASE("where a window lets pages go more sequences of full length have room") {
  KvDemand demand = demand_of(0);
  demand.max_num_seqs = 100;
  demand.pools = {{.page_bytes = 100}};
  demand.memory = 10 * 101 * 100;
  CHECK(kv_budget(demand)->full_length == 10);
  demand.pools[0].attention_window = 100;
  const int held = 100 + 3 * 32 + 4 * limits::tokens_ahead;
  CHECK(kv_budget(demand)->full_length == 10 * 101 / ((held + 9) / 10 + 1));
}

TEST_CASE("where several memories have a part of each page the smallest says how many there are") {
  const std::vector<PageShare> shares{{1000, 10}, {300, 5}, {10'000, 1}};
  CHECK(room_for_pages(shares) == 60 * 16);
  CHECK(room_for_pages(std::span(shares).first(1)) == 1000);
}

TEST_CASE("pages have what weights and drafts leave of each device, or what was asked for") {
  MemoryDemand demand;
  demand.devices = {{400, 10}, {700, 5}};
  demand.kv_memory = 77;
  CHECK(page_memory(demand).value() == 77);
  demand.memory = 1000;
  CHECK(page_memory(demand).value() == 77);
  demand.kv_memory = 0;
  CHECK(page_memory(demand).value() == 60 * 15);
  demand.kv_memory = 60 * 15 + 1;
  const auto refused = page_memory(demand);
  REQUIRE_FALSE(refused);
  CHECK(says(refused.error(), "is 1000, and weights and drafts take 700"));
  demand.kv_memory = 0;
  demand.memory = 700;
  CHECK_FALSE(page_memory(demand));
}
