// The sequences that somebody drafts for, each with where it stands.
#pragma once

#include "speculation/frontier.hpp"

#include <map>
#include <utility>
#include <vector>

namespace paceline::speculation {

/// The sequences of a draft's lane, or of whoever stands for one. It owns what everybody who drafts
/// must know of a sequence, where it stands: it decides which news are newer, and when a sequence
/// is forgotten. `Sequence` has a member `Frontier at`; its other members are what its owner alone
/// knows. Sequences keep their addresses until they are forgotten. Threads: its owner's.
template <class Sequence>
class DraftedSequences {
public:
  /// Returns the sequence that the news are of, so that its owner replaces `at`; that is empty if
  /// the sequence is new. Null: the news are older than what is known, or their residency is over.
  Sequence* find_for(const Frontier& news) {
    if (news.is_over())
      return nullptr;
    Sequence& s = sequences_[news.spec->id];
    return news.supersedes(s.at) ? &s : nullptr;
  }
  /// Has `advance(sequence, frontier)` replace `at` for all that is newer, and forgets sequences
  /// whose residency is over. Returns true when sequences have come or gone.
  template <class Advance>
  bool take(std::vector<Frontier> news, const Advance& advance) {
    bool changed = false;
    for (Frontier& frontier : news)
      if (Sequence* const s = find_for(frontier)) {
        changed |= !s->at.chain;
        advance(*s, std::move(frontier));
      }
    return forget([](const Sequence&) {}) || changed;
  }
  /// Forgets sequences whose residency is over. ended: called with each of them before. Returns
  /// true if there were any.
  template <class Ended>
  bool forget(const Ended& ended) {
    return std::erase_if(sequences_, [&](const auto& entry) {
             const bool over = entry.second.at.is_over();
             if (over)
               ended(entry.second);
             return over;
           }) > 0;
  }
  void clear() { sequences_.clear(); }

  Sequence* find(SequenceId id) {
    const auto found = sequences_.find(id);
    return found == sequences_.end() ? nullptr : &found->second;
  }
  /// Iterates over pairs of id and sequence, in the order of the ids.
  auto begin() { return sequences_.begin(); }
  auto end() { return sequences_.end(); }
  auto begin() const { return sequences_.begin(); }
  auto end() const { return sequences_.end(); }

private:
  std::map<SequenceId, Sequence> sequences_;
};

} // namespace paceline::speculation
