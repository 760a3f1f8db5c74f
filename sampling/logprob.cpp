#include "sampling/row_kernels.hpp"
#include "sampling/warp.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::sampling {
namespace {

using row::infinity;

/// Returns the `top` ids of highest score, likeliest first, the lower id first among equals. Blocks
/// whose highest score cannot enter the list are skipped.
std::vector<std::pair<TokenId, float>> likeliest(std::span<const float> scores, int top) {
  constexpr std::size_t block = 256;
  const auto count = std::min(std::size_t(std::max(top, 0)), scores.size());
  std::vector<std::pair<TokenId, float>> out;
  const auto enters = [&](float x) { return out.size() < count || x > out.back().second; };
  for (std::size_t first = 0; count > 0 && first < scores.size(); first += block) {
    const std::size_t end = std::min(first + block, scores.size());
    if (!enters(row::extent(scores.subspan(first, end - first)).highest))
      continue;
    for (std::size_t i = first; i < end; ++i) {
      if (!enters(scores[i]))
        continue;
      const auto lower = [](float x, const auto& entry) { return x > entry.second; };
      out.emplace(std::upper_bound(out.begin(), out.end(), scores[i], lower), TokenId(i),
                  scores[i]);
      if (out.size() > count)
        out.pop_back();
    }
  }
  return out;
}

template <class LogOf>
TokenLogprob describe(std::span<const float> scores, TokenId token, int top, LogOf log_of) {
  TokenLogprob out{token, -infinity, likeliest(scores, top)};
  if (token >= 0 && std::size_t(token) < scores.size())
    out.logprob = log_of(scores[std::size_t(token)]);
  for (auto& entry : out.top)
    entry.second = log_of(entry.second);
  std::erase_if(out.top, [](const auto& entry) { return entry.second == -infinity; });
  return out;
}

} // namespace

TokenLogprob logprob_of(std::span<const float> logits, int vocabulary, TokenId token, int top) {
  const auto row = logits.first(std::min(logits.size(), std::size_t(vocabulary)));
  const float highest = row::extent(row).highest;
  const double log_total = std::log(row::exponentials(row, {highest, 1}, 0, nullptr));
  return describe(row, token, top,
                  [&](float x) { return float(double(x) - double(highest) - log_total); });
}

TokenLogprob logprob_of_warped(std::span<const float> probabilities, TokenId token, int top) {
  // The logarithm is f64's: devices whose own differ in the last bit agree once it is rounded.
  return describe(probabilities, token, top, [](float x) { return float(std::log(double(x))); });
}

} // namespace paceline::sampling
