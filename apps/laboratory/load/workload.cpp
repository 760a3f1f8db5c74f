#include "apps/laboratory/load/workload.hpp"

#include "apps/laboratory/load/random.hpp"

#include <algorithm>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <numeric>

namespace paceline::apps::load {
namespace {

/// Tokens of a prompt that are drawn one by one: as many as half a page of a KV cache.
constexpr std::size_t beginning_tokens = 8;

template <class T>
T draw(std::mt19937_64& random, T low, T high) {
  return boost::random::uniform_int_distribution<T>(low, high)(random);
}

/// Takes parts of the pool by index: a few from anywhere, then the parts that follow a random one.
template <class Take>
void take_parts(std::size_t pool, std::size_t count, std::mt19937_64& random, const Take& take) {
  const std::size_t loose = std::min(count, beginning_tokens);
  for (std::size_t i = 0; i < loose; ++i)
    take(draw<std::size_t>(random, 0, pool - 1));
  const auto start = draw<std::size_t>(random, 0, pool - 1);
  for (std::size_t i = loose; i < count; ++i)
    take((start + i) % pool);
}

} // namespace

std::vector<Lengths> draw_lengths(std::size_t count, Lengths mean, double range_ratio,
                                  std::uint64_t seed) {
  auto random = random_numbers(seed, Draws::lengths);
  const auto one = [&](int length) {
    const int low = std::max(1, int(std::floor(length * (1 - range_ratio))));
    return draw(random, low, std::max(low, int(std::ceil(length * (1 + range_ratio)))));
  };
  std::vector<Lengths> lengths(count);
  for (Lengths& each : lengths)
    each = {one(mean.prompt), one(mean.output)};
  return lengths;
}

PromptPool::PromptPool(const std::string& text) {
  const std::string spaced = "\n" + text; // There is then something before every word.
  for (std::size_t begin = 0;;) {
    const std::size_t word = spaced.find_first_not_of(" \n", begin);
    if (word == std::string::npos)
      return;
    const std::size_t end = std::min(spaced.find_first_of(" \n", word), spaced.size());
    words_.push_back(spaced.substr(begin, end - begin));
    begin = end;
  }
}

Prompt PromptPool::cut(int tokens, std::mt19937_64& random) const {
  if (!ids_.empty()) {
    std::vector<TokenId> ids;
    take_parts(ids_.size(), std::size_t(tokens), random,
               [&](std::size_t at) { ids.push_back(ids_[at]); });
    return ids;
  }
  std::string text;
  take_parts(words_.size(), std::size_t(tokens), random,
             [&](std::size_t at) { text += words_[at]; });
  return text;
}

std::vector<Prompt> draw_prompts(const PromptPool& pool, const std::vector<Lengths>& lengths,
                                 std::uint64_t seed) {
  auto random = random_numbers(seed, Draws::prompts);
  std::vector<Prompt> prompts;
  for (const Lengths& each : lengths)
    prompts.push_back(pool.cut(each.prompt, random));
  return prompts;
}

} // namespace paceline::apps::load
