// `--scale` and `--draft-scale`: larger models that compute the same distribution, on disk while
// they are in use, or to stay (`--keep-scaled`).
#pragma once

#include "apps/console/interrupt.hpp"
#include "models/synthetic/enlarge.hpp"
#include "paceline/engine.hpp"

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace paceline::apps {

struct ScaleOptions {
  std::string target; ///< Size of the target; empty: the model as it is.
  std::string draft;
  std::string keep; ///< Folder, not yet there, in which they stay; empty: a temporary one.
};

/// Adds --scale, --draft-scale and --keep-scaled.
void add_scale_options(CLI::App& app, ScaleOptions& options);

/// A folder of enlarged models. It is removed with the object, and by Ctrl-C, unless it is to be
/// kept and complete.
class ScaledFolder {
public:
  /// keep: the same as in ScaleOptions.
  ScaledFolder(Interrupt& interrupt, const std::string& keep);
  ~ScaledFolder();
  ScaledFolder(const ScaledFolder&) = delete;
  ScaledFolder& operator=(const ScaledFolder&) = delete;

  /// Makes an enlarged model, and returns its folder in this one; see models/synthetic/enlarge.hpp.
  /// model, role: the same as for models::resolve_model_path. Shows progress.
  Result<std::string> enlarge(const std::string& model, const std::string& role,
                              const models::Enlargement& wanted);
  /// Marks the folder as complete: all models that are to stay are there.
  void complete() { *stays_ = !kept_.empty(); }

private:
  std::string kept_; ///< Its path if it is to stay.
  std::string path_; ///< Empty: it could not be made.
  std::shared_ptr<std::atomic<bool>> stays_ = std::make_shared<std::atomic<bool>>(false);
  Interrupt::Scope scope_;
};

/// Replaces the models that are to be scaled by enlarged ones, which exist as long as the result
/// (null: none was to be scaled).
Result<std::unique_ptr<ScaledFolder>> scale_models(const ScaleOptions& options,
                                                   EngineOptions& engine, Interrupt& interrupt);

/// Names the model "demo, scaled to 350m", since its temporary folder tells nothing.
void name_scaled(ModelInfo& model, const std::string& original, const std::string& size);

/// Reads "350m" or "1.5b", or "moe-1.5b" for a mixture of experts; none: the text is neither.
std::optional<models::Enlargement> parse_scale(const std::string& text);

} // namespace paceline::apps
