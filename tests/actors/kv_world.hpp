// The KV-cache manager with pools of its own: its methods, without messages.
#pragma once

#include "actors/kv_cache.hpp"
#include "tests/actors/pools.hpp"

#include <memory>

namespace paceline::testing {

using Ids = std::vector<std::uint32_t>;

inline messages::TokenLogRef log_of(const Tokens& tokens) {
  return std::make_shared<messages::TokenLog>(tokens, tokens.size());
}

struct KvWorld {
  static constexpr int page_tokens = 4;

  explicit KvWorld(std::size_t target_pages = 16, std::size_t draft_pages = 16,
                   int attention_window = 0)
      : pools{make_pool(target_pages, page_tokens), make_pool(draft_pages, page_tokens)},
        cache(nullptr, pools.target, pools.draft, attention_window,
              std::make_shared<actors::Telemetry>()) {}

  messages::KvGrant reserve(messages::SequenceId id, const Tokens& tokens, int capacity) {
    return cache.reserve({id, log_of(tokens), int(tokens.size()), capacity});
  }
  void release(messages::SequenceId id, const Tokens& tokens = {}) {
    cache.release({id, log_of(tokens), int(tokens.size()), int(tokens.size())});
  }

  actors::PerPool<std::shared_ptr<gpu::KvPool>> pools;
  actors::KvCache cache;
};

} // namespace paceline::testing
