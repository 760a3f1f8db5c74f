// Models that read the same text and are compared row by row.
#pragma once

#include "apps/laboratory/reader.hpp"
#include "apps/laboratory/score/windows.hpp"
#include "paceline/weight_format.hpp"
#include "sampling/warp.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::apps {

/// Means over the tokens that are scored. The distributions are at temperature 1, each behind the
/// text itself. An acceptance is the sum of min(p, q): how often a token that the draft draws there
/// is accepted (docs/theory.md).
struct WeightFigures {
  std::string weights;               ///< Format of the blocks, such as "mxfp6".
  std::optional<ScaleChoice> scales; ///< None: the checkpoint's own weights.
  std::string activations;           ///< Same as ModelInfo::activations.
  std::string kv_cache_dtype;        ///< Same as ModelInfo::kv_cache_dtype.
  std::size_t weight_bytes = 0;
  double perplexity = 0;
  double kl_divergence = 0;   ///< Checkpoint's distribution to this one, in nats a token.
  double same_top = 0;        ///< Share of tokens at which both models find the same one likeliest.
  double self_acceptance = 0; ///< Acceptance of these weights as the checkpoint's draft.
  std::optional<double> draft_acceptance;             ///< Acceptance of the draft by these weights.
  std::optional<double> same_format_draft_acceptance; ///< Acceptance with the draft in it, too.
};

/// A model's distribution of the next token.
class Distribution {
public:
  /// Reads a row of logits, which must live as long as this object is used. False: the model
  /// failed.
  bool read(std::span<const float> logits);
  double logprob(TokenId token) const { return double(logits_[std::size_t(token)]) - log_sum_; }
  bool same_top(const Distribution& other) const { return top_ == other.top_; }
  double acceptance(const Distribution& draft) const;
  /// Returns the sum of p log(p / q), by logits, so that no probability is too small for a
  /// logarithm.
  double divergence(const Distribution& q) const;

private:
  std::span<const float> logits_;
  std::vector<float> p_;
  std::size_t top_ = 0;
  double log_sum_ = 0;
  sampling::WarpScratch scratch_;
};

/// Most tokens that are read at a time.
inline constexpr int reader_rows = 64;

class SideBySide {
public:
  /// The checkpoint as it is and in a format, and a draft likewise.
  enum Role { reference, subject, draft, subject_draft, roles };
  using Models = std::array<std::shared_ptr<const models::Model>, roles>;

  /// models: null if not there; reference and subject must be.
  static Result<SideBySide> open(const Models& models, const std::shared_ptr<gpu::Lane>& lane,
                                 int context, int vocabulary);

  /// Reads tokens [first, first + count) of a window, and scores those behind them.
  Result<void> read(const ScoreWindow& window, std::span<const TokenId> text, std::size_t first,
                    std::size_t count);
  /// Returns the figures of all tokens scored so far.
  WeightFigures figures() const;

private:
  Result<void> add(const std::array<gpu::Tensor, roles>& rows, int row, TokenId next);

  std::array<std::optional<Reader>, roles> readers_;
  std::array<Distribution, roles> of_;
  int vocabulary_ = 0;
  std::size_t tokens_ = 0;
  std::size_t same_top_ = 0;
  double logprob_ = 0;
  double divergence_ = 0;
  double self_ = 0;
  double draft_ = 0;
  double same_format_ = 0;
};

} // namespace paceline::apps
