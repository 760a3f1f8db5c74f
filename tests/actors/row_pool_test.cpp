#include "execution/row_pool.hpp"
#include "execution/sparse_rows.hpp"
#include "tests/actors/models_world.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace paceline;
using namespace paceline::execution;
using namespace paceline::testing;

namespace {

struct Rows {
  explicit Rows(std::size_t rows_max)
      : pool(std::make_shared<RowPool>(RowPool::Config{world.device, nullptr, 8, rows_max})) {}

  std::vector<speculation::QRow> take(int count) {
    std::vector<speculation::QRow> rows;
    while (int(rows.size()) < count)
      rows.push_back(pool->take());
    return rows;
  }

  ModelWorld world;
  std::shared_ptr<RowPool> pool;
};

} // namespace

TEST_CASE("no more rows are lent than the budget has, and each to one borrower") {
  Rows rows(37);
  auto all = rows.take(37);
  std::set<float*> different;
  for (const auto& row : all)
    different.insert(row.get());
  CHECK(different.size() == 37);
  CHECK_FALSE(different.contains(nullptr));
  CHECK(rows.pool->allocated() == 37);
  CHECK_FALSE(rows.pool->take());
  all.pop_back();
  CHECK(rows.pool->take());
  CHECK_FALSE(rows.pool->take(1)); // it would be the last
}

TEST_CASE("memory of rows is given back when most of it is not lent") {
  Rows rows(400);
  auto all = rows.take(400);
  CHECK(rows.pool->allocated() == 400);
  all.resize(100);
  CHECK(rows.pool->allocated() <= 3 * 100 + 16);
  all.clear();
  CHECK(rows.pool->allocated() <= 16);
  CHECK(rows.take(400).back());
}

TEST_CASE("rows that are kept as zeros are lent for whole distributions, too") {
  Rows rows(4);
  const auto sparse = std::make_shared<SparseRows>(rows.pool);
  const TokenWeight q[] = {{3, 2.0f}, {5, 6.0f}};
  {
    std::vector<speculation::QRow> used;
    for (int i = 0; i < 4; ++i)
      used.push_back(sparse->take(q));
    CHECK(used.back().get()[5] == 0.75f);
    CHECK_FALSE(sparse->take(q));
    CHECK_FALSE(sparse->take());
  }
  auto dense = sparse->take();
  REQUIRE(dense);
  std::fill_n(dense.get(), 8, 1.0f);
  dense = nullptr;
  for (int i = 0; i < 4; ++i) {
    const auto row = sparse->take(q);
    REQUIRE(row);
    CHECK(row.get()[0] == 0.0f);
    CHECK(row.get()[3] == 0.25f);
  }
}
