#include "models/head.hpp"

#include "models/eagle3.hpp"
#include "models/gemma4_assistant.hpp"
#include "models/load.hpp"
#include "models/mtp.hpp"
#include "models/sources.hpp"
#include "models/transformer.hpp"
#include "text/json.hpp"

#include <utility>

namespace paceline::models {
namespace {

constexpr std::string_view eagle3_prefix = "eagle3:";
constexpr std::string_view gemma4_prefix = "gemma4-assistant:";

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
  return name == mtp_draft || name.starts_with(eagle3_prefix) || name.starts_with(gemma4_prefix);
}

Result<HeadSource> open_head(const std::string& name, const CheckpointSource& source,
                             const ModelConfig& target) {
  if (name == mtp_draft)
    return open_mtp(source, target);
  if (name.starts_with(gemma4_prefix))
    return resolve_model_path(name.substr(gemma4_prefix.size()), "gemma4-assistant")
        .and_then([&](const std::string& folder) {
          return open_gemma4_assistant(folder, target, source.location());
        });
  return resolve_model_path(name.substr(eagle3_prefix.size()), "eagle3")
      .and_then([&](const std::string& folder) {
        return open_eagle3(folder, target, source.location());
      });
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
