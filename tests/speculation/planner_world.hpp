// What the draft's lane does next, with tokens that the test makes up.
#pragma once

#include "speculation/draft_planner.hpp"
#include "tests/support/pools.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace paceline::testing {

using namespace speculation;

inline constexpr int page_tokens = 4;

struct PlannerWorld {
  explicit PlannerWorld(int context = 1000, int fork_rows = 8,
                        std::shared_ptr<const text::VocabularyMap> map = nullptr)
      : pool(make_pool(64, map ? 2 * page_tokens : page_tokens)),
        planner({context, fork_rows}, pool, std::move(map)) {}
  explicit PlannerWorld(DraftLimits limits)
      : pool(make_pool(64, page_tokens)), planner(limits, pool) {}

  /// A sequence that stands behind `tokens`, and whose window has two positions.
  Frontier frontier(SequenceId id, const Tokens& tokens, int window = 2, int lookahead = 3) {
    auto spec = std::make_shared<SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = 1;
    Frontier at;
    at.spec = spec;
    at.epoch = {1, ++epochs};
    at.log = std::make_shared<TokenLog>(tokens, tokens.size());
    at.log_length = int(tokens.size());
    at.chain = std::make_shared<Chain>(id);
    const int length = at.length();
    at.chain->begin(length, length + window, length + window + lookahead);
    std::vector<gpu::PageRef> pages;
    for (int i = 0; i < 64; ++i)
      pages.push_back(std::make_shared<gpu::Page>());
    at.pages = gpu::PageTable::extend(nullptr, page_tokens, std::move(pages));
    at.residency = std::make_shared<CacheResidency>();
    at.residency->epoch = at.epoch;
    return at;
  }
  /// The pass is computed: it draws `token` everywhere.
  static void compute(DraftPass& pass, TokenId token = 5, const sampling::Guesses& guesses = {}) {
    for (DraftRows& rows : pass.parts) {
      DraftPlanner::begins(rows);
      if (rows.draws >= 0)
        rows.chain().bind(rows.draws + rows.drawn);
      if (rows.pending())
        rows.tokens = {rows.chain().token(rows.start)};
      DraftPlanner::fed(rows);
      for (int i = 0; i < rows.drawn; ++i)
        rows.chain().put(rows.draws + i, token, nullptr, guesses);
    }
  }

  std::shared_ptr<gpu::KvPool> pool;
  std::uint64_t epochs = 0;
  DraftPlanner planner;
};

} // namespace paceline::testing
