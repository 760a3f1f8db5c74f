#include "models/checkpoint/paths.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/installed.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

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

/// Returns whether the name has the form "org/name" that the hub allows.
bool is_hub_id(std::string_view name) {
  const auto slash = name.find('/');
  if (slash == name.npos || slash == 0 || slash + 1 == name.size())
    return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool starts = i == 0 || i == slash + 1;
    if (i != slash && !std::isalnum(c) && (starts || (c != '-' && c != '_' && c != '.')))
      return false;
  }
  return true;
}

/// Returns the hub's cache, found as huggingface_hub finds it.
std::optional<fs::path> hub_cache() {
  if (auto cache = from_environment("HF_HUB_CACHE"))
    return cache;
  if (auto home = from_environment("HF_HOME"))
    return *home / "hub";
  if (auto cache = from_environment("XDG_CACHE_HOME"))
    return *cache / "huggingface/hub";
  if (auto home = from_environment("HOME"))
    return *home / ".cache/huggingface/hub";
  return {};
}

constexpr std::string_view cached_model = "models--"; // followed by org--name

std::optional<fs::path> snapshot_of(const std::string& id) {
  const auto cache = hub_cache();
  if (!cache)
    return {};
  std::string name = std::string(cached_model) + id;
  name.replace(name.find('/'), 1, "--");
  std::ifstream ref(*cache / name / "refs/main");
  std::string revision;
  ref >> revision;
  if (revision.empty() || revision.size() > 64 || revision.find('/') != revision.npos)
    return {};
  const fs::path snapshot = *cache / name / "snapshots" / revision;
  return is_folder(snapshot) ? std::optional(snapshot) : std::nullopt;
}

} // namespace

Result<std::string> find_checkpoint(const std::string& name, const std::string& role) {
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
  if (!is_hub_id(name))
    return fail(
        ErrorCode::not_found, "no model " + text::shown_path(name),
        "give a .gguf file, the folder of a checkpoint, a hub id such as org/name, or demo");
  if (const auto snapshot = snapshot_of(name))
    return snapshot->string();
  return fail(ErrorCode::not_found,
              name + " is neither a folder nor in the local Hugging Face cache",
              "download it: hf download " + name);
}

std::vector<std::string> cached_checkpoints() {
  std::vector<std::string> found;
  std::error_code failed;
  for (fs::directory_iterator entry(hub_cache().value_or(fs::path()), failed), end;
       !failed && entry != end; entry.increment(failed)) {
    std::string id = entry->path().filename().string();
    const auto separator = id.find("--", cached_model.size());
    if (!id.starts_with(cached_model) || separator == id.npos)
      continue;
    id = id.replace(separator, 2, "/").substr(cached_model.size());
    if (snapshot_of(id))
      found.push_back(id);
  }
  std::sort(found.begin(), found.end());
  return found;
}

} // namespace paceline::models
