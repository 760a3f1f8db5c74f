#include "models/sources.hpp"

#include "gpu/mx.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "models/checkpoint/paths.hpp"
#include "models/synthetic/scripted.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::models {
namespace {

constexpr std::string_view self_prefix = "self:";

/// Opens the source at a location that resolve_model_path gave.
Result<std::shared_ptr<const CheckpointSource>> checkpoint_at(const std::string& location) {
  if (is_scripted(location))
    return make_scripted_source(location);
  return find_gguf(location).map(
      [&](const std::optional<std::string>& gguf) -> std::shared_ptr<const CheckpointSource> {
        if (gguf)
          return std::make_shared<const GgufSource>(*gguf);
        return std::make_shared<const FolderSource>(location);
      });
}

} // namespace

Result<std::string> resolve_model_path(const std::string& name, const std::string& role) {
  return is_scripted(name) ? name : find_checkpoint(name, role);
}

Result<std::shared_ptr<const CheckpointSource>> open_checkpoint(const std::string& name,
                                                                const std::string& role) {
  return resolve_model_path(name, role).and_then(checkpoint_at);
}

bool is_self_draft(std::string_view name) {
  return name.starts_with(self_prefix);
}

Result<WeightFormat> self_draft_format(std::string_view name) {
  std::vector<const char*> known;
  for (const WeightFormat format : gpu::mx_formats) {
    if (name.substr(self_prefix.size()) == to_string(format))
      return format;
    known.push_back(to_string(format));
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("EngineOptions::drafters = {} names no format of weights",
                          text::shown(std::string(name))),
              fmt::format("give self: and one of {}", fmt::join(known, ", ")));
}

} // namespace paceline::models
