// `--scale` and `--draft-scale`: larger models that compute the same distribution, on disk for as
// long as they are in use, or to stay (`--keep-scaled`).
#pragma once

#include "apps/console/interrupt.hpp"
#include "paceline/engine.hpp"

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace paceline::apps {

struct ScaleOptions {
  std::string target; ///< Sizes; empty: the model as it is.
  std::string draft;
  std::string keep; ///< A folder, not yet there, in which they stay; empty: a temporary one.
};

/// --scale, --draft-scale, --keep-scaled
void add_scale_options(CLI::App& app, ScaleOptions& options);

/// A folder of enlarged models; it goes with the object, and with a Ctrl-C, unless it is to be kept
/// and complete.
class ScaledFolder {
public:
  /// keep: as in ScaleOptions.
  ScaledFolder(Interrupt& interrupt, const std::string& keep);
  ~ScaledFolder();
  ScaledFolder(const ScaledFolder&) = delete;
  ScaledFolder& operator=(const ScaledFolder&) = delete;

  /// The enlarged model's folder in this one; see models/synthetic/enlarge.hpp. model, role: as for
  /// models::resolve_model_path. Shows progress.
  Result<std::string> enlarge(const std::string& model, const std::string& role,
                              std::uint64_t parameters);
  /// All models that are to stay are there.
  void complete() { *stays_ = !kept_.empty(); }

private:
  std::string kept_; ///< Its path where it is to stay.
  std::string path_; ///< Empty: it could not be made.
  std::shared_ptr<std::atomic<bool>> stays_ = std::make_shared<std::atomic<bool>>(false);
  Interrupt::Scope scope_;
};

/// Puts enlarged models in the place of those that are to be scaled; they are there as long as what
/// this gives (null: none was to be).
Result<std::unique_ptr<ScaledFolder>> scale_models(const ScaleOptions& options,
                                                   EngineOptions& engine, Interrupt& interrupt);

/// "demo, scaled to 350m": the folder it lies in for the moment says nothing.
void name_scaled(ModelInfo& model, const std::string& original, const std::string& size);

/// "350m" or "1.5b" as a number; none: it is not one.
std::optional<std::uint64_t> parse_parameters(const std::string& text);

} // namespace paceline::apps
