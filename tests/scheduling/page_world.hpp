// The KV-cache manager with pools of its own: its methods, without messages.
#pragma once

#include "scheduling/page_manager.hpp"
#include "tests/support/pools.hpp"

#include <memory>

namespace paceline::testing {

using Ids = std::vector<std::uint32_t>;

inline speculation::TokenLogRef log_of(const Tokens& tokens) {
  return std::make_shared<speculation::TokenLog>(tokens, tokens.size());
}

struct PageWorld {
  static constexpr int page_tokens = 4;

  explicit PageWorld(std::size_t target_pages = 16, std::size_t draft_pages = 16,
                     int attention_window = 0, bool has_forks = false)
      : cache({.pools = {{make_pool(target_pages, page_tokens), attention_window, has_forks},
                         {make_pool(draft_pages, page_tokens)}},
               .telemetry = std::make_shared<base::Telemetry>()}) {}

  scheduling::KvGrant reserve(speculation::SequenceId id, const Tokens& tokens, int capacity) {
    return cache.reserve({id, log_of(tokens), int(tokens.size()), capacity});
  }
  void release(speculation::SequenceId id, const Tokens& tokens = {}) {
    cache.release({id, log_of(tokens), {int(tokens.size()), int(tokens.size())}});
  }

  scheduling::PageManager cache;
};

} // namespace paceline::testing
