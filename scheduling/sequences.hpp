// All sequences that are open.
#pragma once

#include "scheduling/sequence.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace paceline::scheduling {

/// The sequences that are open. Those that have never asked for pages are kept apart: whoever goes
/// over the sequences, by id, sees only the others, and so a step costs no more however many wait.
/// A sequence keeps its address until it is erased.
class Sequences {
public:
  using ById = std::map<SequenceId, Sequence>;

  /// Adds a sequence that has asked for no pages.
  Sequence& add(SequenceSpecRef spec) {
    asked_.prompt_tokens += spec->prompt_tokens;
    asked_.max_tokens += spec->max_tokens;
    Sequence& s = queued_[spec->id];
    s.spec = std::move(spec);
    return s;
  }
  /// Notes that the sequence asks for pages.
  void leave_queue(const Sequence& s) { begun_.insert(queued_.extract(s.spec->id)); }
  /// Forgets a sequence, which must be here.
  void erase(SequenceId id) {
    const Sequence& s = *find(id);
    asked_.prompt_tokens -= s.spec->prompt_tokens;
    asked_.max_tokens -= s.spec->max_tokens;
    if (begun_.erase(id) == 0)
      queued_.erase(id);
  }
  /// Returns null if no sequence of this id is open.
  Sequence* find(SequenceId id) {
    for (ById* const part : {&begun_, &queued_})
      if (const auto at = part->find(id); at != part->end())
        return &at->second;
    return nullptr;
  }

  ById::iterator begin() { return begun_.begin(); }
  ById::iterator end() { return begun_.end(); }
  ById::const_iterator begin() const { return begun_.begin(); }
  ById::const_iterator end() const { return begun_.end(); }
  /// Returns how many there are, the queued ones included.
  std::size_t count() const { return begun_.size() + queued_.size(); }
  /// Returns those that have never asked for pages.
  ById& queued() { return queued_; }
  const ById& queued() const { return queued_; }
  /// Says whether any waits for pages.
  bool any_waits() const {
    return !queued_.empty() || std::ranges::any_of(begun_, [](const auto& entry) {
      return entry.second.phase == Sequence::Phase::waiting;
    });
  }

  /// What the requests of all open sequences ask for together.
  struct Asked {
    std::int64_t prompt_tokens = 0;
    std::int64_t max_tokens = 0;
  };
  const Asked& asked() const { return asked_; }

private:
  ById begun_;
  ById queued_;
  Asked asked_;
};

} // namespace paceline::scheduling
