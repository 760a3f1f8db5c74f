// Pools of tiny pages, and tokens to fill them with.
#pragma once

#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "paceline/request.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

namespace paceline::testing {

/// The time of devices whose lanes a test does not use.
class NoTime final : public base::Timekeeper {
public:
  base::TimePoint now() const override { return {}; }
  void after(base::Duration, std::function<void()>) override { std::abort(); }
};

inline std::shared_ptr<gpu::KvPool> make_pool(std::size_t pages, int page_tokens) {
  static const auto device =
      gpu::open_device("cpu", {.threads = 1, .time = std::make_shared<NoTime>(), .trace = {}})
          .value();
  return gpu::KvPool::create(*device, {.page_tokens = page_tokens, .token_bytes = 1}, pages)
      .value();
}

/// The draft's, beside scheduling::target_pool, where there are two.
inline constexpr std::size_t draft_pool = 1;
inline constexpr std::array<std::size_t, 2> both_pools{0, draft_pool};

using Tokens = std::vector<TokenId>;

/// Few different tokens, so that random prefixes often agree.
inline Tokens random_tokens(std::mt19937_64& random, std::size_t count, TokenId alphabet) {
  Tokens tokens(count);
  for (TokenId& token : tokens)
    token = TokenId(random() % std::uint64_t(alphabet));
  return tokens;
}

inline Tokens first(const Tokens& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + std::ptrdiff_t(count)};
}

} // namespace paceline::testing
