#include "models/mtp.hpp"

#include "models/families.hpp"
#include "models/sources.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <utility>

namespace paceline::models {
namespace {

/// Returns the configuration of the block: the target's, with one layer of attention, and a mixture
/// if the target has any.
ModelConfig block_config(const ModelConfig& target) {
  ModelConfig block = target;
  block.architecture = "MTP head";
  block.layers = 1;
  block.mixers = {LayerConfig()};
  block.recurrence.reset();
  if (block.mixture)
    block.mixture->layers = {true};
  block.draft_blocks = std::max(0, target.draft_blocks - 1);
  block.tied_embedding = false;
  block.text_only = false;
  block.taps.clear();
  block.key_taps.clear();
  FusionConfig fusion;
  fusion.joint = Joint::before;
  fusion.features = target.hidden;
  fusion.vocabulary = target.vocabulary;
  fusion.goes_on_normed = family_of(target.architecture).mtp->goes_on_normed;
  block.fusion = fusion;
  return block;
}

} // namespace

Result<HeadSource> open_mtp(const CheckpointSource& source, const ModelConfig& target) {
  auto tensors = source.mtp_tensors(target);
  if (!tensors)
    return tl::unexpected(tensors.error());
  if (!*tensors)
    return fail(ErrorCode::not_found,
                text::shown_path(source.location()) +
                    " brings no block that drafts (multi-token prediction)",
                "give another draft, or a checkpoint that was not stripped of it");
  return HeadSource{source.location(),   "mtp", block_config(target), {target.layers}, {},
                    std::move(*tensors), {}};
}

bool brings_mtp(const std::string& name) {
  const auto tensors = open_checkpoint(name, "target").and_then([](const auto& source) {
    return source->config().and_then(
        [&](const ModelConfig& config) { return source->mtp_tensors(config); });
  });
  return tensors && *tensors;
}

} // namespace paceline::models
