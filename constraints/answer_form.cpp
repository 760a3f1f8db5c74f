#include "constraints/answer_form.hpp"

#include "constraints/budget.hpp"
#include "constraints/limits.hpp"
#include "sampling/warp.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>

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

void AnswerForm::expect(const sampling::History& history, std::span<const TokenId> window) const {
  Output output = output_of(history);
  output.insert(output.end(), window.begin(), window.end());
  later_([self = weak_from_this(), output = std::move(output), rows = window.size() + 1] {
    for (std::size_t behind = rows; behind-- > 0;) { // one mask a turn: a lane may wait for another
      const auto form = self.lock();
      if (!form)
        return;
      const std::lock_guard lock(form->mutex_);
      form->known({output.begin(), output.end() - std::ptrdiff_t(behind)});
    }
  });
}

const AnswerForm::Known* AnswerForm::find(std::span<const TokenId> output) const {
  const auto at = std::ranges::find_if(
      known_, [output](const Known& one) { return std::ranges::equal(one.output, output); });
  return at == known_.end() ? nullptr : &*at;
}

const AnswerForm::Known& AnswerForm::known(Output output) const {
  if (const Known* at = find(output))
    return *at;
  if (known_.size() < limits::masks_kept)
    known_.emplace_back();
  Known& at = known_[oldest_];
  oldest_ = (oldest_ + 1) % limits::masks_kept;
  at.output = std::move(output);
  fill(at);
  return at;
}

/// A form that takes too long allows nothing any more, which ends the request.
void AnswerForm::fill(Known& known) const {
  try {
    const Budget budget(limits::mask_seconds_max);
    if (!broken_)
      return fill_in_time(known);
  } catch (const std::exception&) { // the matcher is in no state to go on from
    broken_ = true;
  }
  known.restricted = true;
  known.mask.assign(sampling::mask_words(vocabulary_), 0);
}

/// Behind a token that was not allowed, and behind the end, nothing is restricted.
void AnswerForm::fill_in_time(Known& known) const {
  known.restricted = false;
  if (!read(known.output) || matcher_.IsTerminated())
    return;
  known.mask.assign(sampling::mask_words(vocabulary_), ~0u);
  known.restricted = fill_mask(matcher_, known.mask);
}

/// Takes back what the output has not, and reads on. false: it is outside the form.
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
