#include "apps/laboratory/bench/sampler.hpp"

#include "apps/console/statistics.hpp"
#include "apps/laboratory/timed_step.hpp"

#include <cmath>

namespace paceline::apps {
namespace {

constexpr int vocabularies[] = {32'768, 151'936, 262'144};
constexpr int sampler_repetitions = 9;
constexpr int history_tokens = 512;

struct NamedRule {
  const char* name;
  sampling::Rule rule;
};
constexpr NamedRule rules[] = {{"rejection", sampling::Rule::rejection},
                               {"coupled", sampling::Rule::coupled},
                               {"match", sampling::Rule::match}};

struct NamedWarping {
  const char* name;
  sampling::Warping warping;
};
std::vector<NamedWarping> warpings() {
  sampling::Warping none;
  none.temperature = 0.8f;
  sampling::Warping top_p = none;
  top_p.top_p = 0.95f;
  sampling::Warping top_k = none;
  top_k.top_k = 40;
  sampling::Warping penalties = none;
  penalties.repetition_penalty = 1.1f;
  penalties.presence_penalty = 0.2f;
  return {{"none", none}, {"top-p", top_p}, {"top-k", top_k}, {"penalties", penalties}};
}

/// Returns logits like those of a trained model: a wide, low hill, and a few tokens that stand out.
std::vector<float> some_logits(int count) {
  std::vector<float> logits(static_cast<std::size_t>(count));
  std::uint32_t state = 12345;
  const auto uniform = [&state] {
    state = state * 1664525u + 1013904223u;
    return float(state >> 8) * 0x1p-24f;
  };
  for (float& logit : logits)
    logit = 2 * (uniform() + uniform() + uniform() + uniform() - 2) / 0.577f;
  for (int i = 0; i < 12; ++i)
    logits[std::size_t(uniform() * float(count - 1))] = 14 - float(i) / 2;
  return logits;
}

/// A window that will be accepted whole, in the form that its rule needs.
class Window {
public:
  Window(int vocabulary, sampling::Rule rule, const sampling::Warping& warping)
      : history_(history_tokens) {
    const std::vector<float> row = some_logits(vocabulary);
    for (int i = 0; i < sampler_rows; ++i)
      logits_.insert(logits_.end(), row.begin(), row.end());
    for (int i = 0; i < history_tokens; ++i)
      history_[std::size_t(i)] = TokenId((i * 61) % vocabulary);
    verify_.logits = logits_.data();
    verify_.stride = vocabulary;
    verify_.vocabulary = vocabulary;
    verify_.warping = &warping;
    verify_.history = {history_, history_.size() / 2, {}};
    verify_.rule = rule;
    if (rule == sampling::Rule::rejection) {
      q_.assign(row.size(), 1e-12f); // This q is below any p that is drawn.
      q_rows_.assign(sampler_rows, q_.data());
    }
  }

  /// Finds the tokens that the target itself would draw.
  Result<void> prepare(gpu::Lane& lane) {
    for (int i = 0; i + 1 < sampler_rows; ++i) {
      gpu::VerifyTask draw = verify_;
      draw.tokens = tokens_;
      if (!q_rows_.empty())
        draw.q = std::span(q_rows_).first(tokens_.size());
      const auto drawn = time_on(lane, 1, [&](gpu::Operations& ops) { ops.verify({&draw, 1}); });
      if (!drawn)
        return tl::unexpected(drawn.error());
      if (!draw.ended || draw.accepted != i)
        return fail(ErrorCode::internal, "a window for measuring was rejected", "please report it");
      tokens_.push_back(draw.next);
    }
    verify_.tokens = tokens_;
    if (!q_rows_.empty())
      verify_.q = std::span(q_rows_).first(tokens_.size());
    return {};
  }

  Result<double> seconds_per_row(gpu::Lane& lane) {
    return time_on(lane, sampler_repetitions,
                   [&](gpu::Operations& ops) {
                     ops.verify({&verify_, 1});
                   })
        .map([](const auto& times) { return median(times) / sampler_rows; });
  }

private:
  std::vector<float> logits_;
  std::vector<float> q_;
  std::vector<const float*> q_rows_;
  std::vector<TokenId> history_;
  std::vector<TokenId> tokens_;
  gpu::VerifyTask verify_;
};

} // namespace

Result<std::vector<SamplerTime>> measure_sampler(gpu::Lane& lane) {
  std::vector<SamplerTime> times;
  for (const int vocabulary : vocabularies)
    for (const auto& [rule_name, rule] : rules)
      for (const auto& [warper, warping] : warpings()) {
        Window window(vocabulary, rule, warping);
        const auto seconds =
            window.prepare(lane).and_then([&] { return window.seconds_per_row(lane); });
        if (!seconds)
          return tl::unexpected(seconds.error());
        times.push_back({vocabulary, rule_name, warper, *seconds});
      }
  return times;
}

} // namespace paceline::apps
