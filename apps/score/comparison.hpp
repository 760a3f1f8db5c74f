// What formats of weights cost a model: its distributions along a text beside those of the
// checkpoint as it is.
#pragma once

#include "paceline/engine.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

/// Means over the tokens that are scored; distributions at temperature 1, each behind the text
/// itself. An acceptance is the sum of min(p, q): how often a token that the draft draws there is
/// accepted (docs/theory.md).
struct WeightFigures {
  std::string weights;               ///< Of the blocks: "mxfp6"
  std::optional<ScaleChoice> scales; ///< None: the checkpoint as it is.
  std::size_t weight_bytes = 0;
  double perplexity = 0;
  double kl_divergence = 0;   ///< Of the checkpoint's distribution to this one, in nats a token.
  double same_top = 0;        ///< Share of tokens at which both find the same one likeliest.
  double self_acceptance = 0; ///< Of these weights as a draft of the checkpoint as it is.
  std::optional<double> draft_acceptance;             ///< Of the draft, by these weights.
  std::optional<double> same_format_draft_acceptance; ///< Of the draft in the same format.
};

class WeightComparison {
public:
  struct Options {
    /// target, device, threads, dtype, max_model_len
    EngineOptions engine;
    std::vector<WeightFormat> formats;
    std::string draft; ///< A model; empty: none.
  };

  /// Loads the checkpoint, and the draft, as they are. Errors: the device is no cpu; what loading
  /// says; another vocabulary.
  static Result<WeightComparison> open(Options options);
  WeightComparison(WeightComparison&&) noexcept;
  ~WeightComparison();

  std::vector<TokenId> tokenize(const std::string& text) const;
  ModelInfo target() const;
  std::optional<ModelInfo> draft() const;
  int context() const; ///< Of both, as the options cut it.

  /// The checkpoint first, then every format with every choice of scales. Holds one of them in
  /// memory at a time. tokens: at least 2. progress: what is read, and how far all of it is.
  Result<std::vector<WeightFigures>>
  measure(const std::vector<TokenId>& tokens,
          const std::function<void(const std::string& what, double done)>& progress) const;

private:
  struct Parts;
  explicit WeightComparison(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace paceline::apps
