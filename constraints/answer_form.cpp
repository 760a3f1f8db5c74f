#include "constraints/answer_form.hpp"

#include "constraints/budget.hpp"
#include "constraints/limits.hpp"
#include "constraints/spelling.hpp"
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

AnswerForm::AnswerForm(const CompiledForm& form, int vocabulary,
                       std::shared_ptr<const text::Tokenizer> tokenizer, Later later)
    : vocabulary_(vocabulary), tokenizer_(std::move(tokenizer)), later_(std::move(later)),
      form_(form.form), reading_{xgrammar::GrammarMatcher(form.form)} {
  if (form.usual)
    usual_.emplace(Reading{xgrammar::GrammarMatcher(*form.usual)});
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

std::optional<sampling::FormToken> AnswerForm::foretell(const sampling::History& history) const {
  Output output = output_of(history);
  const std::lock_guard lock(mutex_);
  Known& at = known(std::move(output));
  if (!at.foretold)
    at.foretold = foretold(at);
  return *at.foretold;
}

/// Returns what the form says, and where it leaves blanks free what is usual. If this takes too
/// long nothing is foretold any more, and a new matcher goes on with masks.
std::optional<sampling::FormToken> AnswerForm::foretold(const Known& at) const try {
  using Kind = sampling::FormToken::Kind;
  if (!at.restricted || broken_ || !foretells_)
    return std::nullopt;
  const Budget budget(limits::mask_seconds_max);
  const auto by_form = spelled(reading_, at.output, at.mask);
  if (!usual_ || (by_form && by_form->kind != Kind::usual))
    return by_form;
  sampling::TokenMask mask = open_mask();
  if (!usual_->fill(at.output, mask))
    return by_form;
  const auto usual = spelled(*usual_, at.output, mask);
  return usual ? sampling::FormToken{usual->token, Kind::usual} : by_form;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception&) {
  reading_ = {xgrammar::GrammarMatcher(form_)};
  foretells_ = false;
  return std::nullopt;
}

/// Returns what is spelled behind an output, which has this mask.
std::optional<sampling::FormToken> AnswerForm::spelled(Reading& reading, const Output& output,
                                                       const sampling::TokenMask& mask) const {
  return spelled_by(mask, *tokenizer_, [&](TokenId token, char byte) {
    Output longer = output;
    longer.push_back(token);
    sampling::TokenMask behind = open_mask();
    return reading.fill(longer, behind) && all_begin_with(byte, behind, *tokenizer_);
  });
}

AnswerForm::Known* AnswerForm::find(std::span<const TokenId> output) const {
  const auto at = std::ranges::find_if(
      known_, [output](const Known& one) { return std::ranges::equal(one.output, output); });
  return at == known_.end() ? nullptr : &*at;
}

AnswerForm::Known& AnswerForm::known(Output output) const {
  if (Known* at = find(output))
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
  Known made{std::move(output), false, open_mask(), std::nullopt};
  try {
    const Budget budget(limits::mask_seconds_max);
    if (!broken_) {
      made.restricted = reading_.fill(made.output, made.mask);
      return made;
    }
  } catch (const std::exception&) { // the matcher is not in a state to go on from
    broken_ = true;
  }
  made.restricted = true;
  std::ranges::fill(made.mask, 0);
  return made;
}

sampling::TokenMask AnswerForm::open_mask() const {
  return sampling::TokenMask(sampling::mask_words(vocabulary_), ~0u);
}

/// Rolls the matcher back to what it shares with the output, and reads the rest. Returns false if
/// the output is outside the form.
bool AnswerForm::Reading::follow(std::span<const TokenId> output) {
  const auto parting = std::ranges::mismatch(read, output);
  const auto shared = std::size_t(parting.in1 - read.begin());
  if (shared < read.size())
    matcher.Rollback(int(read.size() - shared));
  read.resize(shared);
  for (const TokenId token : output.subspan(shared)) {
    if (matcher.IsTerminated() || !matcher.AcceptToken(token))
      return false;
    read.push_back(token);
  }
  return true;
}

/// Writes what may come behind the output into the mask. Returns false if every token may, or the
/// output is outside the form or its end.
bool AnswerForm::Reading::fill(std::span<const TokenId> output, sampling::TokenMask& mask) {
  return follow(output) && !matcher.IsTerminated() && fill_mask(matcher, mask);
}

} // namespace paceline::constraints
