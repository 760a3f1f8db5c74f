// EAGLE-3 heads (Li et al. 2025): one block that drafts from hidden states of the target. Folders
// as the hub has them, in the layout of the method's authors ("midlayer.", options beside
// "draft_vocab_size") and in that of the speculators library ("speculators_model_type").
//
// A row of a head reads a token and the features of the position before: three hidden states of the
// target (low, middle, high), made one by `fc`. It gives logits for the position behind the token,
// over a vocabulary of its own, and features of the token's position, from which it goes on where
// the target has none yet.
#pragma once

#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/model.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Whether EngineOptions::drafters is "eagle3:DIR"; what DIR is, a folder or a hub id.
bool is_eagle3_draft(std::string_view name);
std::string eagle3_source(std::string_view name);

/// What a head's config.json says.
struct Eagle3Config {
  const char* layout = ""; ///< "original", "speculators"
  ModelConfig model;       ///< With `fusion`.
  int target_hidden = 0;   ///< Of the target that it was made for.
  /// Layers of the target whose inputs it reads; empty: the method's own choice (taps_in).
  std::vector<int> taps;
};
/// What of a target decides whether a head is for it.
struct TargetShape {
  std::string name;
  int hidden = 0;
  int vocabulary = 0;
  int layers = 0;
};
/// Errors name the layout, or the option that is not known here.
Result<Eagle3Config> read_eagle3_config(const std::string& folder);
/// The target's layers whose inputs the head reads: as it says, else the third, the middle one and
/// the third from the end, as its authors and other engines have it. Errors: the head was made for
/// another target.
Result<std::vector<int>> taps_in(const TargetShape& target, const Eagle3Config& config);

/// Ids of the target by the head's (`d2t`), and the tensors that the head's transformer has.
struct Eagle3Tensors {
  std::unique_ptr<TensorSource> tensors;
  std::vector<TokenId> target_ids;
};
/// Errors: a table that does not fit the vocabularies, or contradicts its mask (`t2d`).
Result<Eagle3Tensors> read_eagle3_tensors(const std::string& folder, const Eagle3Config& config);

struct Eagle3Head {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Model> target; ///< Leaves what the head reads (with_taps).
  std::vector<TokenId> says; ///< By the target's ids: the head's own; -1: it cannot say that.
};
/// The head in `folder`, for this target, on a device that uses the target's memory. Errors: it is
/// a head for another one.
Result<Eagle3Head> load_eagle3(const std::string& folder,
                               const std::shared_ptr<const Model>& target,
                               std::shared_ptr<gpu::Device> device, LoadOptions options);

} // namespace paceline::models
