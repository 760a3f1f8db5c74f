// A tiny world in which whole windows are drafted and judged, several tokens deep: every target
// row is known, so the probability of every output is too. What a window of random length, a
// lookahead and a draft that begins anew do to the output's distribution shows in the counts.
//
// The decoder is written once over a `Faults` set. Without faults it makes exactly the calls of
// sampling/rules.hpp; each fault is one mistake that a decoder could make, and the test that
// accepts the first must reject all the others.
#pragma once

#include "sampling/rules.hpp"
#include "sampling/rules_core.hpp"
#include "tests/support/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace paceline::testing {

using sampling::Judgement;
using sampling::Noise;
using sampling::Purpose;
using sampling::Rule;

using Row = std::vector<float>;
using Tokens = std::vector<TokenId>;

/// A function of the tokens before a row, worked out once for each.
class Rows {
public:
  Rows() = default;
  explicit Rows(std::function<Row(const Tokens&)> make) : make_(std::move(make)) {}
  const Row& operator()(const Tokens& context) const {
    auto& row = known_[context];
    if (row.empty())
      row = make_(context);
    return row;
  }

private:
  std::function<Row(const Tokens&)> make_;
  mutable std::map<Tokens, Row> known_;
};

struct World {
  int vocabulary = 0;
  int length = 0; ///< Tokens of an output.
  Rows target;
  Rows draft;
};

enum class Fault {
  none,
  accept_on_equal,             ///< u * q <= p.
  residual_not_normalised,     ///< Its cumulative sum compared with u, not u times its mass.
  residual_is_target,          ///< A rejected token is replaced by a draw from p.
  bonus_from_draft,            ///< The token after a full window is drawn from q.
  residual_shares_draft_noise, ///< One number for the proposal and for its replacement.
  accept_keyed_as_draft,       ///< A wrong key: acceptance uses the proposal's number.
  lookahead_kept,              ///< The rest of a window is judged after a rejection.
  token_dropped_by_value,      ///< A token of small q is not judged but drafted again.
  bound_after_draw,            ///< Whether a position is judged depends on its own token.
};

/// How coarse the acceptance noise is: 0 leaves it alone, else u is rounded down to multiples of
/// 1/coarse. Where all ratios p/q are such multiples the rule is exact all the same, and u = 0 and
/// u * q = p, which fine noise never meets, happen all the time.
struct Faults {
  Fault fault = Fault::none;
  int coarse = 0;
};

/// judge() with a fault built in; without one it must equal sampling::judge (a test compares).
inline Judgement judge_with(Faults faults, Rule rule, const Row& p, const Row& q, TokenId token,
                            const Noise& noise, std::uint32_t position, std::uint32_t attempt) {
  if (rule != Rule::rejection)
    return sampling::judge(rule, p, q, token, noise, position);
  const auto t = std::size_t(token);
  const auto draft_key = noise.key(position, Purpose::draft, attempt);
  double u = sampling::uniform(faults.fault == Fault::accept_keyed_as_draft
                                   ? draft_key
                                   : noise.key(position, Purpose::accept));
  if (faults.coarse > 0)
    u = std::floor(u * faults.coarse) / faults.coarse;
  const bool accepted = faults.fault == Fault::accept_on_equal ? u * double(q[t]) <= double(p[t])
                                                               : sampling::accepts(u, p[t], q[t]);
  if (accepted)
    return {true, token};

  const auto key = faults.fault == Fault::residual_shares_draft_noise
                       ? draft_key
                       : noise.key(position, Purpose::residual);
  if (faults.fault == Fault::residual_is_target)
    return {false, sampling::draw(p, key)};
  Row rest(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    rest[i] = sampling::residual(p[i], q[i]);
  if (faults.fault == Fault::residual_not_normalised) {
    double sum = 0;
    std::size_t i = 0;
    while (i + 1 < rest.size() && (sum += double(rest[i])) <= sampling::uniform(key))
      ++i;
    return {false, TokenId(i)};
  }
  if (std::all_of(rest.begin(), rest.end(), [](float x) { return x == 0; }))
    return {false, sampling::draw(p, key)};
  return {false, sampling::draw(rest, key)};
}

/// Decodes one output. Window lengths, how much of a window is bound in time and whether a full
/// window is followed by its lookahead or by a bonus token come from a schedule that knows the
/// past but no token's value.
class WindowDecoder {
public:
  WindowDecoder(const World& world, Rule rule, Faults faults, Noise noise)
      : world_(world), rule_(rule), faults_(faults), noise_(noise) {}

  Tokens run() {
    while (int(output_.size()) < world_.length)
      round();
    output_.resize(std::size_t(world_.length));
    return output_;
  }

private:
  static constexpr std::uint32_t prompt = 3;

  double chance() { // the schedule's own noise
    return sampling::uniform({noise_.seed, 77, schedule_++, 0, Purpose::target});
  }
  std::uint32_t position() const { return prompt + std::uint32_t(output_.size()); }

  void round() {
    const int bound = int(chance() * 4); // 0: the draft was late, plain decoding
    for (int i = 0; i < bound; ++i) {
      const Row& p = world_.target(output_);
      const Row& q = world_.draft(output_);
      const TokenId token = sampling::propose(rule_, q, noise_, position(), attempt_);
      if (dropped(token, q))
        return begin_anew();
      const auto j = judge_with(faults_, rule_, p, q, token, noise_, position(), attempt_);
      output_.push_back(j.token);
      if (!j.accepted) {
        if (faults_.fault == Fault::lookahead_kept)
          keep_rest(token, bound - i - 1);
        return begin_anew();
      }
    }
    if (bound > 0 && chance() < 0.5)
      return; // The lookahead's first token is bound: the next round judges it, same chain.
    const Row& row = faults_.fault == Fault::bonus_from_draft && bound > 0 ? world_.draft(output_)
                                                                           : world_.target(output_);
    output_.push_back(sampling::follow(rule_, row, noise_, position()));
    begin_anew();
  }

  void begin_anew() { attempt_ = position(); }

  bool dropped(TokenId token, const Row& q) {
    if (faults_.fault == Fault::token_dropped_by_value && q[std::size_t(token)] < 0.2f)
      attempt_ += 1000; // other noise, or it would be drawn again
    else if (faults_.fault == Fault::bound_after_draw && token == 0 && chance() < 0.5) {
      output_.push_back(sampling::follow(rule_, world_.target(output_), noise_, position()));
      return true;
    } else
      return false;
    const TokenId again = sampling::propose(rule_, q, noise_, position(), attempt_);
    output_.push_back(
        judge_with(faults_, rule_, world_.target(output_), q, again, noise_, position(), attempt_)
            .token);
    return true;
  }

  /// The mistake: what follows a rejected token, drafts and target rows, stands although the token
  /// before it has been replaced.
  void keep_rest(TokenId rejected, int count) {
    Tokens drafted = output_;
    drafted.back() = rejected;
    for (int i = 0; i < count; ++i) {
      const Row& p = world_.target(drafted);
      const Row& q = world_.draft(drafted);
      const TokenId token = sampling::propose(rule_, q, noise_, position(), attempt_);
      const auto j = judge_with(faults_, rule_, p, q, token, noise_, position(), attempt_);
      drafted.push_back(token);
      output_.push_back(j.token);
      if (!j.accepted)
        return;
    }
  }

  const World& world_;
  Rule rule_;
  Faults faults_;
  Noise noise_;
  Tokens output_;
  std::uint32_t attempt_ = prompt;
  std::uint32_t schedule_ = 0;
};

/// Probability of every output, in the order of `index_of`.
inline std::vector<double> enumerate(const World& world) {
  std::vector<Tokens> outputs{{}};
  std::vector<double> probabilities{1};
  for (int depth = 0; depth < world.length; ++depth) {
    std::vector<Tokens> longer;
    std::vector<double> next;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Row p = world.target(outputs[i]);
      double total = 0;
      for (float x : p)
        total += double(x);
      for (TokenId t = 0; t < world.vocabulary; ++t) {
        longer.push_back(outputs[i]);
        longer.back().push_back(t);
        next.push_back(probabilities[i] * double(p[std::size_t(t)]) / total);
      }
    }
    outputs = std::move(longer);
    probabilities = std::move(next);
  }
  return probabilities;
}

inline std::size_t index_of(const Tokens& output, int vocabulary) {
  std::size_t index = 0;
  for (TokenId t : output)
    index = index * std::size_t(vocabulary) + std::size_t(t);
  return index;
}

inline ChiSquare fit_of_outputs(const World& world, Rule rule, Faults faults, int samples) {
  const auto probabilities = enumerate(world);
  std::vector<std::uint64_t> counts(probabilities.size());
  for (int i = 0; i < samples; ++i) {
    WindowDecoder decoder(world, rule, faults, {std::uint64_t(i) * 0x9E3779B97F4A7C15u, 0});
    ++counts[index_of(decoder.run(), world.vocabulary)];
  }
  return chi_square(probabilities, counts);
}

} // namespace paceline::testing
