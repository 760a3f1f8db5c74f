// EAGLE-3 heads (Li et al. 2025): one block that drafts from hidden states of the target. They are
// read from folders of the hub, in the layout of the method's authors ("midlayer.", options beside
// "draft_vocab_size") and in that of the speculators library ("speculators_model_type").
//
// A row of a head reads a token and the features of the position before: three hidden states of the
// target (low, middle, high), which `fc` combines into one. It gives logits for the position behind
// the token, over a vocabulary of its own, and features of the token's position; the head goes on
// from these where the target has none yet.
#pragma once

#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/load_options.hpp"
#include "models/model.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// These tell whether a drafter's name (EngineOptions::drafters) is "eagle3:DIR", and return DIR, a
/// folder or a hub id.
bool is_eagle3_draft(std::string_view name);
std::string eagle3_source(std::string_view name);

/// The contents of a head's config.json.
struct Eagle3Config {
  const char* layout = ""; ///< "original", "speculators"
  ModelConfig model;       ///< Configuration of its block, with `fusion` set.
  int target_hidden = 0;   ///< Hidden size of the target that it was made for.
  /// Layers of the target whose inputs it reads; empty: the method's own choice (taps_in).
  std::vector<int> taps;
};
/// The facts about a target that decide whether a head fits it.
struct TargetShape {
  std::string name;
  int hidden = 0;
  int vocabulary = 0;
  int layers = 0;
};
/// Reads a head's config.json. Errors name the layout, or the option that is not known here.
Result<Eagle3Config> read_eagle3_config(const std::string& folder);
/// Returns the target's layers whose inputs the head reads: those that it names, else the third,
/// the middle one and the third from the end, as its authors and other engines do. Error: the head
/// was made for another target.
Result<std::vector<int>> taps_in(const TargetShape& target, const Eagle3Config& config);

/// The target's ids by the head's ids (`d2t`), and the tensors of the head's transformer.
struct Eagle3Tensors {
  std::unique_ptr<TensorSource> tensors;
  std::vector<TokenId> target_ids;
};
/// Reads them. Errors: a table that does not fit the vocabularies, or contradicts its mask (`t2d`).
Result<Eagle3Tensors> read_eagle3_tensors(const std::string& folder, const Eagle3Config& config);

struct Eagle3Head {
  std::shared_ptr<const Model> model;
  /// The target, which leaves what the head reads (with_taps).
  std::shared_ptr<const Model> target;
  /// The head's id for each of the target's ids; -1: the head cannot say it.
  std::vector<TokenId> says;
};
/// Loads a head for this target, on a device that uses the target's memory. source: as
/// eagle3_source gives it. Error: it is a head for another target.
Result<Eagle3Head> load_eagle3(const std::string& source,
                               const std::shared_ptr<const Model>& target,
                               std::shared_ptr<gpu::Device> device, LoadOptions options);

} // namespace paceline::models
