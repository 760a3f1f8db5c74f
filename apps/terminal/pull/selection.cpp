#include "apps/terminal/pull/selection.hpp"

#include "models/checkpoint/gguf_files.hpp"
#include "models/identity.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <string_view>

namespace paceline::apps::pull {
namespace {

/// What is read of a checkpoint besides configuration, tokenizer and weights, and its licence.
constexpr std::array texts{"generation_config.json",
                           "tokenizer_config.json",
                           "special_tokens_map.json",
                           "chat_template.jinja",
                           "chat_template.json",
                           "LICENSE",
                           "LICENSE.txt",
                           "LICENSE.md",
                           "NOTICE"};

/// Whether a checkpoint's weights are in this file; others are an adapter's, or in their makers'
/// own layout.
bool has_weights(const std::string& path) {
  return path.starts_with("model") && path.ends_with(".safetensors") &&
         models::is_checkpoint_file(path);
}

bool is_of_checkpoint(const HubFile& file) {
  if (file.path.ends_with(".safetensors"))
    return has_weights(file.path);
  return std::ranges::find(texts, file.path) != texts.end() ||
         (models::is_checkpoint_file(file.path) && !file.path.ends_with(".gguf"));
}

/// The files of each GGUF model: its parts in order.
using Models = std::vector<std::vector<HubFile>>;

/// Groups the GGUF files; those that project pictures or hold statistics are no models.
Models gguf_models(const std::vector<HubFile>& files) {
  std::map<std::string, std::vector<HubFile>> by_path;
  for (const HubFile& file : files)
    if (const std::string name = file.name(); name.ends_with(".gguf") &&
                                              !name.starts_with("mmproj") &&
                                              name.find("imatrix") == name.npos) {
      const auto part = models::gguf_part(file.path);
      by_path[part ? part->stem : file.path].push_back(file);
    }
  Models all;
  for (auto& [path, parts] : by_path) {
    std::ranges::sort(parts, {}, &HubFile::path);
    all.push_back(std::move(parts));
  }
  return all;
}

/// Fails unless all parts of a model are listed.
Result<void> check_whole(const std::string& base, const std::vector<HubFile>& files) {
  const auto first = models::gguf_part(files.front().path);
  const auto of = first ? std::size_t(first->of) : 1;
  for (std::size_t i = 0; first && i < files.size(); ++i)
    if (const auto part = models::gguf_part(files[i].path);
        part->number != int(i) + 1 || std::size_t(part->of) != of)
      return fail(ErrorCode::corrupt, fmt::format("{} lacks part {} of {}", base, i + 1, of),
                  "tell those who made it, or choose another variant");
  if (files.size() != of)
    return fail(ErrorCode::corrupt,
                fmt::format("{} lacks part {} of {}", base, files.size() + 1, of),
                "tell those who made it, or choose another variant");
  return {};
}

/// Returns the variant under which a model is kept: its format where that tells it from others.
std::string variant_of(const std::string& stem, const std::vector<std::string>& stems) {
  const std::string brief = models::gguf_variant(stem);
  const auto same = [&](const std::string& other) { return models::gguf_variant(other) == brief; };
  return std::ranges::count_if(stems, same) == 1 ? brief : stem;
}

Result<Selection> select_gguf(const models::ModelName& asked, const Models& all) {
  std::vector<std::string> stems;
  for (const auto& files : all)
    stems.push_back(models::gguf_stem(files.front().path));
  const auto index = models::choose_variant(asked.base, stems, asked.variant);
  if (!index)
    return tl::unexpected(index.error());
  const std::vector<HubFile>& files = all[*index];
  const std::string full = asked.base + ":" + variant_of(stems[*index], stems);
  const auto name = models::parse_model_name(full);
  if (!name)
    return fail(ErrorCode::unsupported,
                fmt::format("{} is no name that a model can have here", text::shown_path(full)),
                "fetch the file by other means, and give it as the model");
  return check_whole(asked.base, files).map([&] { return Selection{*name, files}; });
}

Result<Selection> select_checkpoint(const models::ModelName& asked,
                                    const std::vector<HubFile>& files) {
  Selection selection{asked, {}};
  std::ranges::copy_if(files, std::back_inserter(selection.files), is_of_checkpoint);
  std::ranges::stable_sort(selection.files, {}, &HubFile::size);
  return selection;
}

/// What stands in the way where there is neither a checkpoint nor a GGUF file.
tl::unexpected<Error> no_model(const std::string& base, const std::vector<HubFile>& files) {
  const auto pickled = [](const HubFile& file) {
    return file.path.ends_with(".bin") || file.path.ends_with(".pth");
  };
  return fail(ErrorCode::unsupported,
              fmt::format("{} has neither config.json with safetensors nor a GGUF file{}", base,
                          std::ranges::any_of(files, pickled)
                              ? ": its weights are pickled, and not read"
                              : ""),
              "look for another version of it at the hub, such as one in GGUF");
}

} // namespace

std::uint64_t Selection::bytes() const {
  return std::accumulate(files.begin(), files.end(), std::uint64_t(0),
                         [](std::uint64_t sum, const HubFile& file) { return sum + file.size; });
}

Result<Selection> select_files(const models::ModelName& asked, const std::vector<HubFile>& files) {
  const auto has = [&](const auto& holds) { return std::ranges::any_of(files, holds); };
  const bool checkpoint = has([](const HubFile& file) { return file.path == "config.json"; }) &&
                          has([](const HubFile& file) { return has_weights(file.path); });
  if (asked.variant.empty() && checkpoint)
    return select_checkpoint(asked, files);
  const Models all = gguf_models(files);
  if (!all.empty())
    return select_gguf(asked, all);
  if (checkpoint)
    return fail(ErrorCode::not_found,
                fmt::format("{} has no GGUF files, and so no {}", asked.base, asked.variant),
                "fetch its checkpoint: paceline pull " + asked.base);
  return no_model(asked.base, files);
}

} // namespace paceline::apps::pull
