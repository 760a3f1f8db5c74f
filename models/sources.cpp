#include "models/sources.hpp"

#include "gpu/mx.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "models/checkpoint/installed.hpp"
#include "models/checkpoint/stores.hpp"
#include "models/synthetic/scripted.hpp"
#include "text/json.hpp"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view self_prefix = "self:";

std::optional<fs::path> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<fs::path>(value) : std::nullopt;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Returns the folder that holds "target" and "draft": the one that the environment names, the
/// installed one, or the one in the source tree.
std::optional<fs::path> demo_folder() {
  if (auto named = from_environment("PACELINE_DEMO_MODELS"))
    return named;
  if (auto installed = installed_data("demo"))
    return installed;
  if (is_folder(PACELINE_DEMO_MODELS))
    return PACELINE_DEMO_MODELS;
  return {};
}

Result<std::string> demo_model(const std::string& role) {
  const auto folder = demo_folder();
  if (folder && is_folder(*folder / role))
    return (*folder / role).string();
  return fail(ErrorCode::not_found,
              fmt::format("the built-in {} model is not installed{}", role,
                          folder ? " in " + folder->string() : ""),
              "name a model with EngineOptions::target and EngineOptions::drafters, or set "
              "PACELINE_DEMO_MODELS");
}

/// Looks a name up in the stores.
Result<std::string> find_by_name(const std::string& text) {
  const auto name = parse_model_name(text);
  if (!name)
    return fail(
        ErrorCode::not_found, "no model " + text::shown_path(text),
        "give a .gguf file, the folder of a checkpoint, a hub id such as org/name, or demo");
  const auto stored = find_stored(*name);
  if (!stored)
    return tl::unexpected(stored.error());
  if (*stored)
    return (*stored)->location;
  if (!name->at_hub())
    return fail(ErrorCode::not_found, "no model " + text,
                "give a .gguf file, the folder of a checkpoint, a hub id such as org/name, or one "
                "of the names that paceline list shows");
  return fail(ErrorCode::not_found,
              name->text() + " is neither a folder nor a model on this machine",
              "fetch it: paceline pull " + name->text());
}

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
  if (is_scripted(name))
    return name;
  if (name == "demo") // tested before folders: such a folder is ./demo
    return demo_model(role);
  if (is_folder(name))
    return name;
  std::error_code ignored;
  if (fs::exists(name, ignored) && is_gguf(name))
    return name;
  if (fs::exists(name, ignored))
    return fail(ErrorCode::invalid_argument, text::shown_path(name) + " is no model's file",
                "give a .gguf file, or the folder that holds config.json and model.safetensors");
  return find_by_name(name);
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
