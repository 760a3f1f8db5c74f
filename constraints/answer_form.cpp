#include "constraints/answer_form.hpp"

#include "constraints/budget.hpp"
#include "constraints/limits.hpp"
#include "sampling/warp.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>

namespace paceline::constraints {
namespace {

std::vector<TokenId> output_of(const sampling::History& history) {
  const auto committed = history.committed.subspan(history.prompt_tokens);
  std::vector<TokenId> output;
  output.reserve(committed.size() + history.prefix.size());
  output.assign(committed.begin(), committed.end());
  output.insert(output.end(), history.prefix.begin(), history.prefix.end());
  return output;
}

} // namespace

bool fill_mask(xgrammar::GrammarMatcher& matcher, sampling::TokenMask& mask) {
  auto words = std::int64_t(mask.size());
  DLTensor row{};
  row.data = mask.data();
  row.device = {kDLCPU, 0};
  row.ndim = 1;
  row.dtype = xgrammar::GetBitmaskDLType();
  row.shape = &words;
  return matcher.FillNextTokenBitmask(&row);
}

AnswerForm::AnswerForm(const xgrammar::CompiledGrammar& form, int vocabulary, Later later)
    : vocabulary_(vocabulary), later_(std::move(later)), matcher_(form) {
  known_.reserve(limits::masks_kept);
}

bool AnswerForm::next(const sampling::History& history, sampling::TokenMask& mask) const {
  Output output = output_of(history);
  const std::lock_guard lock(mutex_);
  const Known& at = known(std::move(output));
  if (at.restricted)
    mask.assign(at.mask.begin(), at.mask.end());
  return at.restricted;
}

/// Remembers what to work out ahead. At most one piece of work is posted for a form, however far
/// the thread is behind.
void AnswerForm::expect(const sampling::History& history, std::span<const TokenId> window) const
    try {
  Expected expected{output_of(history), window.size() + 1};
  expected.output.insert(expected.output.end(), window.begin(), window.end());
  bool posted = false;
  {
    const std::lock_guard lock(expected_mutex_);
    posted = expected_.has_value();
    expected_ = std::move(expected);
  }
  if (!posted)
    later_([self = weak_from_this()] {
      if (const auto form = self.lock())
        form->work_ahead();
    });
} catch (const std::bad_alloc&) {
  take_expected();
}

std::optional<AnswerForm::Expected> AnswerForm::take_expected() const noexcept {
  const std::lock_guard lock(expected_mutex_);
  return std::exchange(expected_, std::nullopt);
}

/// Works out masks ahead. The lock is released after each mask, since a lane may wait for another
/// one. If memory runs out, nothing is worked out ahead, and whoever needs a mask makes it then.
void AnswerForm::work_ahead() const try {
  const auto expected = take_expected();
  for (std::size_t behind = expected ? expected->rows : 0; behind-- > 0;) {
    const std::lock_guard lock(mutex_);
    known({expected->output.begin(), expected->output.end() - std::ptrdiff_t(behind)});
  }
} catch (const std::bad_alloc&) {
}

const AnswerForm::Known* AnswerForm::find(std::span<const TokenId> output) const {
  const auto at = std::ranges::find_if(
      known_, [output](const Known& one) { return std::ranges::equal(one.output, output); });
  return at == known_.end() ? nullptr : &*at;
}

const AnswerForm::Known& AnswerForm::known(Output output) const {
  if (const Known* at = find(output))
    return *at;
  Known made = worked_out(std::move(output));
  if (known_.size() < limits::masks_kept)
    return known_.emplace_back(std::move(made));
  Known& at = known_[oldest_];
  oldest_ = (oldest_ + 1) % limits::masks_kept;
  return at = std::move(made);
}

/// Makes the mask behind an output. Nothing is restricted behind a token that was not allowed, nor
/// behind the end. A form that takes too long allows nothing any more, which ends the request.
AnswerForm::Known AnswerForm::worked_out(Output output) const {
  Known made{std::move(output), false, sampling::TokenMask(sampling::mask_words(vocabulary_), ~0u)};
  try {
    const Budget budget(limits::mask_seconds_max);
    if (!broken_) {
      made.restricted =
          read(made.output) && !matcher_.IsTerminated() && fill_mask(matcher_, made.mask);
      return made;
    }
  } catch (const std::exception&) { // the matcher is not in a state to go on from
    broken_ = true;
  }
  made.restricted = true;
  std::ranges::fill(made.mask, 0);
  return made;
}

/// Rolls the matcher back to what it shares with the output, and reads the rest. Returns false if
/// the output is outside the form.
bool AnswerForm::read(std::span<const TokenId> output) const {
  const auto parting = std::ranges::mismatch(read_, output);
  const auto shared = std::size_t(parting.in1 - read_.begin());
  if (shared < read_.size())
    matcher_.Rollback(int(read_.size() - shared));
  read_.resize(shared);
  for (const TokenId token : output.subspan(shared)) {
    if (matcher_.IsTerminated() || !matcher_.AcceptToken(token))
      return false;
    read_.push_back(token);
  }
  return true;
}

} // namespace paceline::constraints
