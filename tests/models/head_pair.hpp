// A target and a head on it, each with a sequence in its pages.
#pragma once

#include "models/head.hpp"
#include "tests/models/support.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <span>
#include <utility>
#include <vector>

namespace paceline::models::test {

struct HeadPair {
  explicit HeadPair(Head loaded, int page_tokens = 16)
      : head(std::move(loaded)), target(head.target, page_tokens), drafter(head.model, page_tokens),
        target_pages(target.take_pages(128)), pages(drafter.take_pages(128)) {}

  /// The target's rows of `tokens`; logits from index `from` on, or none.
  Rows read(std::span<const TokenId> tokens, int start = 0, int from = -1) {
    const SequenceRows rows{target_pages, start, tokens, from < 0 ? int(tokens.size()) : from};
    return target.run({&rows, 1});
  }
  /// The head's rows of `tokens`, with `features` leading positions of the target's. All logits
  /// from index `from` on.
  Rows draft(std::span<const TokenId> tokens, int start, int features, int from) {
    const SequenceRows rows{.pages = pages,
                            .start = start,
                            .tokens = tokens,
                            .logits_from = from,
                            .features = {&target.pool(), target_pages, features}};
    return drafter.run({&rows, 1});
  }

  Head head;
  Runner target;
  Runner drafter;
  std::vector<std::uint32_t> target_pages;
  std::vector<std::uint32_t> pages;
};

/// Checks that a head's rows have the same bits in one pass, in chunks and page by page. load:
/// returns the head with its target.
template <class Load>
void check_chunks(const Load& load, std::span<const TokenId> prompt) {
  HeadPair whole(load());
  whole.read(prompt);
  const Rows expected = whole.draft(prompt, 0, int(prompt.size()), 1);
  for (const auto& [page_tokens, chunk] : {std::pair(16, 1), {8, 7}, {32, 33}}) {
    HeadPair pair(load(), page_tokens);
    Rows rows;
    for (int at = 0; at < int(prompt.size()); at += chunk) {
      const auto part =
          prompt.subspan(std::size_t(at), std::size_t(std::min(chunk, int(prompt.size()) - at)));
      pair.read(part, at);
      for (auto& row : pair.draft(part, at, at + int(part.size()), at == 0 ? 1 : 0))
        rows.push_back(std::move(row));
    }
    CHECK(same_bits(rows, expected));
  }
}

} // namespace paceline::models::test
