#include "execution/pass_outcome.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::execution {

std::shared_ptr<PassOutcome> PassOutcome::behind(PassOutcome& ahead,
                                                 const scheduling::Batch& batch) {
  auto made = std::make_shared<PassOutcome>();
  made->batch_ = batch.id;
  made->fate_ = Fate::open;
  for (const scheduling::BatchEntry& entry : batch.entries)
    made->branches_.push_back({.chain = entry.round.chain,
                               .length = entry.length,
                               .window = entry.round.window,
                               .pages = entry.feed.pages,
                               .own = {}});
  const std::lock_guard lock(ahead.mutex_);
  ahead.next_ = made;
  if (ahead.judged_ || ahead.fate_ == Fate::ends)
    made->fate_ = Fate::ends;
  return made;
}

PassOutcome::Fate PassOutcome::fate() const {
  const std::lock_guard lock(mutex_);
  return fate_;
}

std::vector<std::size_t> PassOutcome::came_true() const {
  const std::lock_guard lock(mutex_);
  return came_true_;
}

void PassOutcome::end() {
  const std::lock_guard lock(mutex_);
  if (fate_ == Fate::open)
    fate_ = Fate::ends;
}

bool PassOutcome::begin(std::vector<Branch> branches, std::vector<Branch> ahead) {
  const std::lock_guard lock(mutex_);
  if (fate_ == Fate::ends)
    return false;
  begun_ = true;
  branches_ = std::move(branches);
  ahead_ = std::move(ahead);
  return true;
}

std::vector<Branch> PassOutcome::branches() const {
  std::vector<Branch> all;
  {
    const std::lock_guard lock(mutex_);
    all = ahead_;
    all.insert(all.end(), branches_.begin(), branches_.end());
  }
  std::erase_if(all, [](const Branch& branch) { return branch.chain->closed(); });
  return all;
}

// A pass that is gone has gone through all stages, so nothing behind it needs to be told.
void PassOutcome::go_on(PassOutcome& judged, std::span<const Onset> onsets,
                        std::span<scheduling::Verdict> verdicts) {
  std::vector<Onset> at(onsets.begin(), onsets.end());
  bool next = true;
  for (auto pass = judged.close(); pass; pass = pass->next()) {
    const auto on = pass->follow(at, next);
    next &= on.empty();
    for (std::size_t i = 0; i < on.size(); ++i) {
      verdicts[at[i].entry].continuations.push_back(on[i]);
      at[i].length = on[i].length + on[i].window + 1;
    }
  }
}

std::shared_ptr<PassOutcome> PassOutcome::close() {
  const std::lock_guard lock(mutex_);
  judged_ = true;
  return next_.lock();
}

std::shared_ptr<PassOutcome> PassOutcome::next() const {
  const std::lock_guard lock(mutex_);
  return next_.lock();
}

/// Follows a judged pass. next: whether no pass lies between this one and the judged one. Returns
/// an empty list if this pass ends, or had ended.
std::vector<scheduling::Continuation> PassOutcome::follow(std::span<const Onset> onsets,
                                                          bool next) {
  const std::lock_guard lock(mutex_);
  if (fate_ == Fate::ends)
    return {};
  std::vector<std::size_t> numbers;
  std::vector<scheduling::Continuation> on;
  for (const Onset& onset : onsets)
    if (const auto number = branch_for(onset, next)) {
      const Branch& branch = branches_[*number];
      numbers.push_back(*number);
      on.push_back({batch_, branch.length, branch.window, branch.own.value_or(branch.length - 1)});
    }
  if (on.empty() || on.size() < onsets.size()) {
    fate_ = Fate::ends;
    return {};
  }
  if (next) {
    fate_ = Fate::goes_on;
    came_true_ = std::move(numbers);
  }
  return on;
}

std::optional<std::size_t> PassOutcome::branch_for(const Onset& onset, bool next) const {
  const auto at = std::ranges::find_if(branches_, [&](const Branch& branch) {
    return branch.chain == onset.chain && branch.length == onset.length;
  });
  const bool there = onset.chain && at != branches_.end() &&
                     (begun_ || !next || onset.chain->bound() >= onset.length + at->window);
  return there ? std::optional(std::size_t(std::distance(branches_.begin(), at))) : std::nullopt;
}

} // namespace paceline::execution
