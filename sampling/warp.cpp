#include "sampling/warp.hpp"

#include "sampling/nucleus.hpp"
#include "sampling/row_kernels.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace paceline::sampling {
namespace {

using row::infinity;
constexpr float greatest = std::numeric_limits<float>::max();

bool inside(TokenId token, std::size_t vocabulary) {
  return token >= 0 && std::size_t(token) < vocabulary;
}

/// Calls see(token, in_output) for each token that penalties look at.
template <class See>
void for_each_token(const History& history, See see) {
  for (std::size_t i = 0; i < history.committed.size(); ++i)
    see(history.committed[i], i >= history.prompt_tokens);
  for (TokenId token : history.prefix)
    see(token, true);
}

/// Applies the penalties. logits: [vocabulary], changed in place. counts is all zero between calls:
/// only tokens of the history are touched, however large the vocabulary is.
void penalise(std::span<float> logits, const Warping& warping, const History& history,
              std::vector<std::uint32_t>& counts) {
  counts.resize(std::max(counts.size(), logits.size()));
  for_each_token(history, [&](TokenId token, bool in_output) {
    if (inside(token, logits.size()) && in_output)
      ++counts[std::size_t(token)];
  });
  constexpr std::uint32_t done = ~0u;
  for_each_token(history, [&](TokenId token, bool) {
    if (!inside(token, logits.size()))
      return;
    auto& count = counts[std::size_t(token)];
    if (count == done)
      return;
    float& x = logits[std::size_t(token)];
    x = x > 0 ? x / warping.repetition_penalty : x * warping.repetition_penalty;
    if (count > 0)
      x -= warping.presence_penalty + warping.frequency_penalty * float(count);
    x = std::min(x, greatest);
    count = done;
  });
  for_each_token(history, [&](TokenId token, bool) {
    if (inside(token, logits.size()))
      counts[std::size_t(token)] = 0;
  });
}

/// Copies the logits of allowed tokens for changing them, the others being -infinity. +infinity
/// becomes the greatest finite value, so that differences are defined.
std::span<float> copy(std::span<const float> logits, const Warping& warping, WarpScratch& scratch) {
  scratch.logits.resize(std::max(scratch.logits.size(), logits.size()));
  const std::span<float> own{scratch.logits.data(), logits.size()};
  const auto finite = [](float x) { return std::min(x, greatest); };
  if (warping.allowed.empty()) {
    std::ranges::transform(logits, own.begin(), finite);
    return own;
  }
  std::ranges::fill(own, -infinity);
  for (const TokenId token : warping.allowed)
    if (inside(token, own.size()))
      own[std::size_t(token)] = finite(logits[std::size_t(token)]);
  return own;
}

/// Makes impossible what the mask forbids. Most words of a mask are empty or full.
void keep_allowed(std::span<float> logits, std::span<const std::uint32_t> mask) {
  for (std::size_t word = 0; word * 32 < logits.size(); ++word) {
    const std::uint32_t bits = word < mask.size() ? mask[word] : 0;
    if (bits == ~0u)
      continue;
    const auto of_word =
        logits.subspan(word * 32, std::min<std::size_t>(32, logits.size() - word * 32));
    for (std::size_t i = 0; i < of_word.size(); ++i)
      if ((bits >> i & 1u) == 0)
        of_word[i] = -infinity;
  }
}

/// Applies the bias, the constraint, the tokens held back and the penalties.
void adjust(std::span<float> logits, const Warping& warping, const History& history,
            WarpScratch& scratch) {
  for (const auto& [token, bias] : warping.logit_bias)
    if (inside(token, logits.size()) && logits[std::size_t(token)] != -infinity)
      logits[std::size_t(token)] = std::min(logits[std::size_t(token)] + bias, greatest);
  std::span<const std::uint32_t> mask;
  if (warping.constraint && warping.constraint->next(history, scratch.mask)) {
    mask = scratch.mask;
    keep_allowed(logits, mask);
  }
  for (const TokenId token : held_back(warping, history.output(), mask))
    if (inside(token, logits.size()))
      logits[std::size_t(token)] = -infinity;
  if (warping.has_penalties())
    penalise(logits, warping, history, scratch.counts);
}

void one_hot(std::span<const float> logits, float highest, std::span<float> probabilities) {
  std::fill(probabilities.begin(), probabilities.end(), 0.0f);
  probabilities[row::find(logits, highest)] = 1;
}

/// Applies temperature and min-p if no token is cut off by rank, in three passes.
void soften(std::span<const float> logits, row::Exponential e, float min_p,
            std::span<float> probabilities) {
  const auto out = probabilities.first(logits.size());
  const double total = row::exponentials(logits, e, min_p, out.data());
  row::scale(out, float(1 / total));
  std::fill(probabilities.begin() + std::ptrdiff_t(logits.size()), probabilities.end(), 0.0f);
}

/// Does the same for the few tokens that top-k and top-p have left.
void soften(Candidates& kept, row::Exponential e, float min_p, std::span<float> probabilities) {
  std::fill(probabilities.begin(), probabilities.end(), 0.0f);
  const std::span<float> weights{kept.values.data(), kept.count};
  const double total = row::exponentials(weights, e, min_p, weights.data());
  row::scale(weights, float(1 / total));
  for (std::size_t i = 0; i < kept.count; ++i)
    probabilities[kept.ids[i]] = weights[i];
}

} // namespace

std::span<const TokenId> held_back(const Warping& warping, std::size_t output,
                                   std::span<const std::uint32_t> mask) {
  const bool early = output < std::size_t(warping.min_tokens);
  if (!early || (!mask.empty() && allows_only(mask, warping.held_back)))
    return {};
  return warping.held_back;
}

std::span<const float> adjusted(std::span<const float> logits, int vocabulary,
                                const Warping& warping, const History& history,
                                WarpScratch& scratch) {
  const auto row = logits.first(std::min(logits.size(), std::size_t(vocabulary)));
  if (!warping.adjusts())
    return row;
  const auto own = copy(row, warping, scratch);
  adjust(own, warping, history, scratch);
  return own;
}

bool warp(std::span<const float> logits, int vocabulary, const Warping& warping,
          const History& history, WarpScratch& scratch, std::span<float> probabilities) {
  assert(logits.size() == probabilities.size() && vocabulary >= 0);
  auto row = logits.first(std::min(logits.size(), std::size_t(vocabulary)));
  auto extent = row::extent(row);
  if (extent.nan)
    return false;
  if (warping.adjusts() || extent.highest == infinity) {
    const auto own = copy(row, warping, scratch);
    adjust(own, warping, history, scratch);
    row = own;
    extent = row::extent(row);
  }
  if (extent.nan || extent.highest == -infinity)
    return false;
  if (warping.greedy()) {
    one_hot(row, extent.highest, probabilities);
    return true;
  }

  const row::Exponential e{extent.highest, std::min(1 / warping.temperature, greatest)};
  const float min_p = std::min(warping.min_p, 1.0f);
  const bool by_rank = warping.top_k > 0 && std::size_t(warping.top_k) < row.size();
  if (!by_rank && !(warping.top_p < 1)) {
    soften(row, e, min_p, probabilities);
    return true;
  }
  auto& kept = scratch.candidates;
  if (by_rank)
    keep_top_k(row, std::size_t(warping.top_k), kept);
  if (warping.top_p < 1)
    by_rank ? keep_top_p(warping.top_p, e, kept) : keep_top_p(row, warping.top_p, e, kept);
  soften(kept, e, min_p, probabilities);
  return true;
}

} // namespace paceline::sampling
