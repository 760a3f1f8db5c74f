#include "apps/laboratory/score/side_by_side.hpp"

#include "sampling/theory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::apps {

bool Distribution::read(std::span<const float> logits) {
  logits_ = logits;
  p_.resize(logits.size());
  const sampling::Warping plain{.temperature = 1, .logit_bias = {}};
  if (!sampling::warp(logits, int(logits.size()), plain, {}, scratch_, p_))
    return false;
  top_ = std::size_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  log_sum_ = double(logits[top_]) - std::log(double(p_[top_]));
  return true;
}

double Distribution::acceptance(const Distribution& draft) const {
  return sampling::theory::acceptance(p_, draft.p_);
}

double Distribution::divergence(const Distribution& q) const {
  double sum = q.log_sum_ - log_sum_;
  for (std::size_t i = 0; i < p_.size(); ++i)
    sum += double(p_[i]) * (double(logits_[i]) - double(q.logits_[i]));
  return sum;
}

Result<SideBySide> SideBySide::open(const Models& models, const std::shared_ptr<gpu::Lane>& lane,
                                    int context, int vocabulary) {
  SideBySide side;
  side.vocabulary_ = vocabulary;
  for (std::size_t role = 0; role < roles; ++role) {
    if (!models[role])
      continue;
    auto reader = Reader::open(models[role], lane, context, reader_rows, reader_rows);
    if (!reader)
      return tl::unexpected(reader.error());
    side.readers_[role] = std::move(*reader);
  }
  return side;
}

Result<void> SideBySide::read(const ScoreWindow& window, std::span<const TokenId> text,
                              std::size_t first, std::size_t count) {
  std::array<gpu::Tensor, roles> rows;
  for (std::size_t role = 0; role < roles; ++role) {
    if (!readers_[role])
      continue;
    auto read = readers_[role]->read(int(first - window.begin), text.subspan(first, count));
    if (!read)
      return tl::unexpected(read.error());
    rows[role] = readers_[role]->logits();
  }
  for (std::size_t i = 0; i < count; ++i)
    if (const std::size_t next = first + i + 1; next >= window.fresh && next < window.end)
      if (auto added = add(rows, int(i), text[next]); !added)
        return added;
  return {};
}

WeightFigures SideBySide::figures() const {
  const auto mean = [this](double sum) { return sum / double(tokens_); };
  const auto if_there = [&](Role role, double sum) {
    return readers_[role] ? std::optional(mean(sum)) : std::nullopt;
  };
  WeightFigures out;
  const ModelInfo& info = readers_[subject]->model().info();
  out.weights = info.weights;
  out.activations = info.activations;
  out.kv_cache_dtype = info.kv_cache_dtype;
  out.weight_bytes = info.weight_bytes;
  out.perplexity = std::exp(-mean(logprob_));
  out.kl_divergence = mean(divergence_);
  out.same_top = mean(double(same_top_));
  out.self_acceptance = mean(self_);
  out.draft_acceptance = if_there(draft, draft_);
  out.same_format_draft_acceptance = if_there(subject_draft, same_format_);
  return out;
}

Result<void> SideBySide::add(const std::array<gpu::Tensor, roles>& rows, int row, TokenId next) {
  for (std::size_t role = 0; role < roles; ++role)
    if (readers_[role] && !of_[role].read({rows[role].row(row), std::size_t(vocabulary_)}))
      return fail(ErrorCode::internal,
                  readers_[role]->model().info().name + " gives logits that are no numbers",
                  "the checkpoint may be damaged");
  const Distribution& p = of_[subject];
  ++tokens_;
  logprob_ += p.logprob(next);
  divergence_ += of_[reference].divergence(p);
  same_top_ += of_[reference].same_top(p);
  self_ += of_[reference].acceptance(p);
  draft_ += readers_[draft] ? p.acceptance(of_[draft]) : 0;
  same_format_ += readers_[subject_draft] ? p.acceptance(of_[subject_draft]) : 0;
  return {};
}

} // namespace paceline::apps
