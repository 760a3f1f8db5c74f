#include "execution/drafter_task.hpp"

#include "speculation/limits.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <stdexcept>
#include <utility>

namespace paceline::execution {

DrafterTask::DrafterTask(const speculation::Frontier& at, speculation::DraftedText& text,
                         speculation::FormGuesses& form, const Rows& rows, Beside beside)
    : at_(at), text_(text), form_(form), rows_(rows), looks_up_(beside == Beside::model),
      hands_on_(looks_up_ && at.drafters.model),
      asks_(looks_up_ ? at.drafters.lookup : at.drafters.model) {
  text.read(at);
  const bool ahead = looks_up_ || next() >= chain().window_end(); // Chain::next is -1 if closed.
  const auto room = [&] { return (ahead ? chain().limit() : chain().window_end()) - next(); };
  if (at.drafters.form()) {
    form_.learn(spec(), std::span(text_.tokens).first(text_.committed()));
    const bool goes_before = asks_ && !hands_on_;
    const double least = goes_before ? speculation::limits::form_chance_first : spelled_from();
    while (room() > 0 && spell(least)) {
    }
  }
  if (asks_ || !hands_on_)
    wanted_ = std::max(room(), int(proposed() == 0));
  asked_ = proposed() + wanted_;
  if (!hands_on_)
    chain().bind(chain().drawn() + asked_);
}

/// Returns the chance from which on the form goes first. A model that is held to the form is right
/// more often where the form tells than it is elsewhere, so the form has to be, too.
double DrafterTask::spelled_from() const {
  return hands_on_ ? (1 + at_.drafters.chance) / 2 : 0;
}

/// Adds the token that the form says comes next, by which the window grows: it takes no place of
/// another one. Returns false if the form does not know, or is not sure enough.
bool DrafterTask::spell(double chance_min) {
  const auto guess = form_.behind(spec(), text_.tokens);
  if (!guess || guess->chance < chance_min ||
      spelled_ * guess->chance < speculation::limits::lookup_chance_min)
    return false;
  spelled_ *= guess->chance;
  const int end = chain().window_end();
  if (next() < end && end - at_.length() < at_.drafters.form_window)
    chain().lengthen();
  chain().bind(std::max(chain().bound(), next() + 1));
  const TokenWeight q[] = {{guess->token, 1}};
  add(guess->token, spec().needs_q() ? rows_.q->take(q) : nullptr, speculation::Writer::form);
  return true;
}

void DrafterTask::go_on() {
  if (left_form_)
    text_.tokens.resize(std::size_t(next()));
  while (at_.drafters.form() && asks_ && wanted_ > 0 && spell(spelled_from()))
    --wanted_;
}

void DrafterTask::bind_next() {
  if (hands_on_)
    chain().bind(next() + 1);
}

void DrafterTask::check_wanted() const {
  if (wanted_ == 0)
    throw std::invalid_argument(
        fmt::format("it proposes more than the {} tokens asked for", asked_));
}

void DrafterTask::check(TokenId token) const {
  if (token < 0 || token >= rows_.vocabulary)
    throw std::invalid_argument(
        fmt::format("it proposes token {}: ids go from 0 to {}", token, rows_.vocabulary - 1));
}

/// Adds a proposal. If the rule needs a row of q and memory lacks, this and later ones are dropped.
void DrafterTask::add(TokenId token, speculation::QRow q, speculation::Writer writer) {
  text_.tokens.push_back(token);
  proposals_.push_back({token, std::move(q), writer});
}

void DrafterTask::add_drawn(TokenId token, speculation::QRow q) {
  using speculation::Writer;
  --wanted_;
  add(token, std::move(q), looks_up_ ? Writer::lookup : Writer::drafter);
}

/// Returns the token to the drafter, which goes on from it as from any other, and nobody else sees
/// it.
TokenId DrafterTask::put_aside(TokenId token) {
  text_.tokens.push_back(token);
  --wanted_;
  return token;
}

/// Whether the constraint lets the token come next. Only then may it be drafted: for a drafter this
/// has the effect of the target's mask on q.
bool DrafterTask::in_form(TokenId token) {
  const auto& constraint = spec().warping.constraint;
  if (!constraint)
    return true;
  if (const std::size_t behind = text_.tokens.size(); masked_ != behind) {
    const sampling::History history{text_.tokens, std::size_t(spec().prompt_tokens), {}};
    restricts_ = constraint->next(history, mask_);
    masked_ = behind;
  }
  return !restricts_ || sampling::allows(mask_, token);
}

void DrafterTask::propose(TokenId token) {
  check_wanted();
  check(token);
  left_form_ = left_form_ || !in_form(token);
  if (left_form_) {
    put_aside(token);
    return;
  }
  bind_next();
  const TokenWeight q[] = {{token, 1}};
  add_drawn(token, spec().needs_q() ? rows_.q->take(q) : nullptr);
}

TokenId DrafterTask::drawn(std::span<const TokenWeight> weights) const {
  if (spec().warping.greedy())
    return std::ranges::max_element(weights, {}, &TokenWeight::weight)->token;
  return sampling::propose(spec().rule, weights, spec().noise, std::uint32_t(text_.tokens.size()),
                           chain().attempt());
}

/// Returns those weights of a distribution whose tokens are in the form.
std::vector<TokenWeight> DrafterTask::in_form(std::span<const TokenWeight> weights) {
  std::vector<TokenWeight> kept;
  double sum = 0;
  for (const TokenWeight& of : weights)
    if (!left_form_ && in_form(of.token)) {
      kept.push_back(of);
      sum += double(of.weight);
    }
  left_form_ = sum <= 0;
  return kept;
}

TokenId DrafterTask::draw(std::span<const TokenWeight> weights) {
  check_wanted();
  double sum = 0;
  bool possible = true;
  for (const TokenWeight& of : weights) {
    check(of.token);
    possible &= of.weight >= 0;
    sum += double(of.weight);
  }
  if (!possible || !std::isfinite(sum) || sum <= 0)
    throw std::invalid_argument(
        fmt::format("it draws from {} weights that are no distribution", weights.size()));
  std::vector<TokenWeight> kept;
  if (spec().warping.constraint)
    kept = in_form(weights);
  if (left_form_)
    return put_aside(std::ranges::max_element(weights, {}, &TokenWeight::weight)->token);
  if (spec().warping.constraint)
    weights = kept;
  bind_next();
  const TokenId token = drawn(weights);
  add_drawn(token, spec().needs_q() ? rows_.q->take(weights) : nullptr);
  return token;
}

TokenId DrafterTask::draw(std::span<const float> log_q) {
  check_wanted();
  if (int(log_q.size()) != rows_.vocabulary)
    throw std::invalid_argument(fmt::format("it draws from a row of {}: the vocabulary has {}",
                                            log_q.size(), rows_.vocabulary));
  const float most = *std::ranges::max_element(log_q);
  std::vector<TokenWeight> weights;
  double sum = 0;
  for (std::size_t i = 0; i < log_q.size(); ++i) {
    const bool possible = left_form_ || in_form(TokenId(i));
    weights.push_back({TokenId(i), possible ? std::exp(log_q[i] - most) : 0});
    sum += double(weights.back().weight);
  }
  if (!std::isfinite(sum) || std::isnan(most) || most == -std::numeric_limits<float>::infinity())
    throw std::invalid_argument("it draws from a row that is no distribution");
  left_form_ = left_form_ || sum <= 0;
  if (left_form_)
    return put_aside(TokenId(std::ranges::max_element(log_q) - log_q.begin()));
  bind_next();
  speculation::QRow row = rows_.q->take();
  const TokenId token = drawn(weights);
  for (std::size_t i = 0; row && i < weights.size(); ++i)
    row.get()[i] = float(double(weights[i].weight) / sum);
  add_drawn(token, std::move(row));
  return token;
}

void DrafterTask::complete() {
  int position = chain().drawn();
  for (Proposed& proposed : proposals_) {
    if (spec().needs_q() && !proposed.q)
      break;
    chain().put(position++, proposed.token, std::move(proposed.q), {}, proposed.writer);
  }
  if (position < chain().bound())
    chain().end_at(position);
  text_.tokens.resize(std::size_t(position));
}

} // namespace paceline::execution
