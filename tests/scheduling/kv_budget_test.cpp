#include "scheduling/kv_budget.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::scheduling;

namespace {

KvDemand demand_of(std::size_t memory) {
  KvDemand demand;
  demand.memory = memory;
  demand.max_model_len = 1000;
  demand.max_num_seqs = 4;
  demand.prefill_chunk = 32;
  demand.page_tokens = 10;
  demand.page_bytes = {100, 10};
  return demand;
}

} // namespace

TEST_CASE("both pools hold as many sequences, and no more than there can be") {
  const auto some = kv_budget(demand_of(2 * 101 * 110));
  REQUIRE(some);
  CHECK(some->target == 202);
  CHECK(some->draft == 202);
  const auto plenty = kv_budget(demand_of(1 << 30));
  REQUIRE(plenty);
  CHECK(plenty->target == 404);
  CHECK(plenty->draft == 404);
}

TEST_CASE("where one sequence does not fit, the error says how much is needed") {
  const auto refused = kv_budget(demand_of(101 * 110 - 1));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::out_of_memory);
  CHECK(refused.error().text().find("at least 11110") != std::string::npos);
  CHECK(kv_budget(demand_of(101 * 110)));
}

TEST_CASE("unasked, the cache takes what all sequences need, or a quarter of what is there") {
  KvDemand demand = demand_of(0);
  demand.available = 1 << 30;
  CHECK(kv_budget(demand)->target == 404);
  demand.available = 4 * 2 * 101 * 110;
  CHECK(kv_budget(demand)->target == 202);
  demand.available = 0; // one sequence all the same: the allocation will tell
  CHECK(kv_budget(demand)->target == 101);
}

TEST_CASE("a window makes the target's share of a sequence smaller, not the draft's") {
  KvDemand demand = demand_of(0);
  demand.available = 1 << 30;
  demand.attention_window = 100;
  const auto pages = kv_budget(demand);
  REQUIRE(pages);
  CHECK(pages->target < 4 * 60);
  CHECK(pages->draft == 404);
}

TEST_CASE("forks have pages of the draft's beyond its sequences'") {
  KvDemand demand = demand_of(2 * 101 * 110 + 30 * 10);
  demand.fork_pages = 30;
  const auto pages = kv_budget(demand);
  REQUIRE(pages);
  CHECK(pages->target == 202);
  CHECK(pages->draft == 232);
}
