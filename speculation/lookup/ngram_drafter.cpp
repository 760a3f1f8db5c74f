#include "speculation/lookup/ngram_drafter.hpp"

#include <algorithm>

namespace paceline::speculation {
namespace {

std::span<const TokenId> before(std::span<const TokenId> tokens, std::size_t place) {
  return tokens.subspan(place - NgramDrafter::n, NgramDrafter::n);
}

std::uint64_t hash(std::span<const TokenId> tokens) {
  std::uint64_t h = 0;
  for (const TokenId token : tokens)
    h = (h ^ std::uint32_t(token)) * 0x9E3779B97F4A7C15u;
  return h;
}

} // namespace

/// Indexes every n tokens that another token follows; the last n of the text say nothing yet.
void NgramDrafter::Text::index(std::span<const TokenId> committed) {
  for (; indexed < committed.size(); ++indexed)
    behind[hash(before(committed, indexed))] = indexed;
}

void NgramDrafter::begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) {
  texts_[sequence.id].index(tokens);
}

void NgramDrafter::end(std::uint64_t sequence, std::span<const TokenId> /*tokens*/) {
  texts_.erase(sequence);
}

void NgramDrafter::propose(std::span<DraftTask* const> tasks) {
  for (DraftTask* task : tasks)
    propose(texts_[task->sequence()], *task);
}

void NgramDrafter::propose(Text& text, DraftTask& task) {
  text.index(task.context().first(task.committed()));
  const std::size_t end = task.context().size();
  if (end < n)
    return;
  const auto last = before(task.context(), end);
  const auto found = text.behind.find(hash(last));
  if (found == text.behind.end() ||
      !std::ranges::equal(last, before(task.context(), found->second)))
    return;
  // The copy may go on into its own proposals, so that a text that repeats itself does so for ever.
  for (std::size_t next = found->second; task.wanted() > 0; ++next)
    task.propose(task.context()[next]);
}

} // namespace paceline::speculation
