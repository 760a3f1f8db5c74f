// The cost of formats of weights: a model's distributions along a text compared with those of the
// checkpoint as it is.
#pragma once

#include "apps/laboratory/score/side_by_side.hpp"
#include "paceline/engine.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

class WeightComparison {
public:
  struct Options {
    /// target, device, threads, dtype and max_model_len are used; kv_cache_dtype and activations
    /// for all but the checkpoint and the draft as they are.
    EngineOptions engine;
    std::vector<WeightFormat> formats;
    std::string draft; ///< Name of a model; empty: none.
  };

  /// Loads the checkpoint, and the draft, as they are. Errors: the device is no cpu; loading fails;
  /// the vocabularies differ.
  static Result<WeightComparison> open(Options options);
  WeightComparison(WeightComparison&&) noexcept;
  ~WeightComparison();

  std::vector<TokenId> tokenize(const std::string& text) const;
  ModelInfo target() const;
  std::optional<ModelInfo> draft() const;
  int context() const; ///< The context of both, as the options cut it.

  /// Returns the figures of the checkpoint, then with another cache, if one is asked for, and then
  /// of every format with every choice of scales; each also with rows of int8, if these are asked
  /// for and its weights are integers. Holds one of them in memory at a time. tokens: at least 2.
  /// progress: called with what is read, and how far all of it is.
  Result<std::vector<WeightFigures>>
  measure(const std::vector<TokenId>& tokens,
          const std::function<void(const std::string& what, double done)>& progress) const;

private:
  struct Parts;
  explicit WeightComparison(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace paceline::apps
