#include "models/head.hpp"

#include "models/dflash.hpp"
#include "models/eagle3.hpp"
#include "models/gemma4_assistant.hpp"
#include "models/load.hpp"
#include "models/mtp.hpp"
#include "models/sources.hpp"
#include "models/transformer.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::models {
namespace {

/// A kind of head whose files are a folder of their own. The name of a draft is that of the kind, a
/// colon, and the folder's.
struct HeadKind {
  std::string_view prefix;
  const char* role; ///< For errors.
  Result<HeadSource> (*open)(const std::string& folder, const ModelConfig& target,
                             const std::string& target_name);
};
constexpr HeadKind head_kinds[] = {
    {"eagle3:", "eagle3", open_eagle3},
    {"dflash:", "dflash", open_dflash},
    {"gemma4-assistant:", "gemma4-assistant", open_gemma4_assistant}};

/// Returns null if the name is of no such kind.
const HeadKind* kind_of(std::string_view name) {
  const auto kind = std::ranges::find_if(
      head_kinds, [&](const HeadKind& each) { return name.starts_with(each.prefix); });
  return kind == std::end(head_kinds) ? nullptr : kind;
}

std::vector<TokenId> says_by_target(const std::vector<TokenId>& target_ids, int vocabulary) {
  if (target_ids.empty())
    return {};
  std::vector<TokenId> says(std::size_t(vocabulary), -1);
  for (std::size_t i = 0; i < target_ids.size(); ++i)
    says[std::size_t(target_ids[i])] = TokenId(i);
  return says;
}

} // namespace

bool is_head_draft(std::string_view name) {
  return name == mtp_draft || kind_of(name);
}

Result<HeadSource> open_head(const std::string& name, const CheckpointSource& source,
                             const ModelConfig& target) {
  if (name == mtp_draft)
    return open_mtp(source, target);
  const HeadKind& kind = *kind_of(name);
  return resolve_model_path(name.substr(kind.prefix.size()), kind.role)
      .and_then(
          [&](const std::string& folder) { return kind.open(folder, target, source.location()); });
}

Result<Head> load_head(HeadSource head, const std::shared_ptr<const Model>& target,
                       std::shared_ptr<gpu::Device> device, LoadOptions options) {
  options.target = target;
  return load_transformer(head.location, head.model, std::move(head.tensors), {std::move(device)},
                          options)
      .map([&](Stages&& stages) {
        return Head{std::move(stages.front()),
                    with_taps(*target, std::move(head.taps), std::move(head.key_taps)),
                    says_by_target(head.target_ids, target->vocabulary())};
      });
}

Result<Head> load_head(const std::string& name, const CheckpointSource& source,
                       const std::shared_ptr<const Model>& target,
                       std::shared_ptr<gpu::Device> device, LoadOptions options) {
  const ModelConfig* config = config_of(*target);
  if (!config)
    return fail(ErrorCode::invalid_argument,
                text::shown_path(target->info().name) +
                    " has no hidden states that a head could read",
                "give a draft that is no head, or another target");
  return open_head(name, source, *config).and_then([&](HeadSource&& head) {
    return load_head(std::move(head), target, std::move(device), std::move(options));
  });
}

} // namespace paceline::models
