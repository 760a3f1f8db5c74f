// What formats of weights cost a model: its distributions along a text beside those of the
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
