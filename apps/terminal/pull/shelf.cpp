#include "apps/terminal/pull/shelf.hpp"

#include "apps/terminal/pull/arrival.hpp"
#include "base/file.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace paceline::apps::pull {
namespace {

namespace fs = std::filesystem;

/// Returns the bytes of a folder's files, or of a file and the other parts of its model.
std::uint64_t bytes_at(const fs::path& location) {
  std::error_code failed;
  const bool is_folder = fs::is_directory(location, failed);
  const auto part = models::gguf_part(location.string());
  if (!is_folder && !part)
    return fs::file_size(location, failed);
  std::uint64_t bytes = 0;
  const fs::path folder = is_folder ? location : location.parent_path();
  for (const fs::path& path : models::sorted_entries(folder)) {
    const auto other = models::gguf_part(path.string());
    if (is_folder || (other && other->stem == part->stem && other->of == part->of))
      if (const auto size = fs::file_size(path, failed); !failed)
        bytes += size;
  }
  return bytes;
}

ShelfModel facts_of(models::ModelName name, models::Store store, std::string kind,
                    std::string location) {
  std::error_code failed;
  const auto time = fs::last_write_time(location, failed);
  ShelfModel model{std::move(name),    store, std::move(kind),
                   bytes_at(location), {},    std::move(location)};
  if (!failed)
    model.modified = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
        std::chrono::file_clock::to_sys(time));
  return model;
}

/// Returns the model that a folder of an arriving one belongs to (part_of).
std::optional<models::ModelName> arriving_name(const fs::path& folder) {
  constexpr std::string_view ending = ".part";
  std::string name = folder.filename().string();
  if (!name.starts_with('.') || !name.ends_with(ending))
    return std::nullopt;
  name = name.substr(1, name.size() - 1 - ending.size());
  return models::parse_model_name(folder.parent_path().filename().string() + "/" + name);
}

std::vector<ShelfModel> unfinished() {
  std::vector<ShelfModel> found;
  for (const fs::path& org : models::sorted_entries(models::own_models().value_or(fs::path())))
    for (const fs::path& folder : models::sorted_entries(org))
      if (const auto name = arriving_name(folder))
        found.push_back(facts_of(*name, models::Store::paceline, "unfinished", folder.string()));
  std::ranges::sort(found, {}, &ShelfModel::location);
  return found;
}

std::vector<ShelfModel> pulled() {
  auto all = shelf_models();
  std::erase_if(all, [](const ShelfModel& m) { return m.store != models::Store::paceline; });
  return all;
}

const char* how_to_remove(models::Store store) {
  switch (store) {
  case models::Store::hugging_face: return "remove it with hf cache";
  case models::Store::lm_studio: return "remove it in LM Studio";
  case models::Store::ollama: return "remove it with ollama rm";
  case models::Store::paceline: break;
  }
  return "";
}

tl::unexpected<Error> not_pulled(const models::ModelName& name) {
  if (const auto elsewhere = models::find_stored(name); elsewhere && *elsewhere)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{} is a model of {}", name.text(), models::to_string((*elsewhere)->store)),
        how_to_remove((*elsewhere)->store));
  return fail(ErrorCode::not_found, "no pulled model " + name.text(),
              "paceline list shows what there is");
}

} // namespace

Result<fs::path> shelf() {
  if (auto folder = models::own_models())
    return *folder;
  return fail(ErrorCode::invalid_argument, "there is no folder for models, since HOME is not set",
              "name one with PACELINE_MODELS");
}

std::vector<ShelfModel> shelf_models() {
  std::vector<ShelfModel> all;
  for (models::StoredModel& model : models::stored_models()) {
    std::error_code ignored;
    const bool folder = fs::is_directory(model.location, ignored);
    all.push_back(facts_of(std::move(model.name), model.store, folder ? "safetensors" : "gguf",
                           std::move(model.location)));
  }
  std::ranges::move(unfinished(), std::back_inserter(all));
  return all;
}

Result<ShelfModel> find_pulled(const std::string& given) {
  const auto name = models::parse_model_name(given);
  if (!name)
    return fail(ErrorCode::not_found, "no pulled model " + text::shown(given),
                "paceline list shows what there is");
  std::vector<ShelfModel> alike;
  for (ShelfModel& model : pulled())
    if (model.name.base == name->base) {
      if (models::same_but_case(model.name.variant, name->variant))
        return model;
      alike.push_back(std::move(model));
    }
  if (!name->variant.empty() || alike.empty())
    return not_pulled(*name);
  if (alike.size() == 1)
    return alike.front();
  std::vector<std::string> names;
  for (const ShelfModel& model : alike)
    names.push_back(model.name.text());
  return fail(ErrorCode::invalid_argument, fmt::format("several models are {}", name->base),
              fmt::format("name one of {}", fmt::join(names, ", ")));
}

Result<void> remove_pulled(const models::ModelName& name) {
  const auto models = shelf();
  if (!models)
    return tl::unexpected(models.error());
  const auto arrival = Arrival::begin(*models, name);
  if (!arrival)
    return tl::unexpected(arrival.error());
  const fs::path place = place_of(*models, name);
  std::error_code failed;
  if (fs::exists(place, failed))
    if (auto gone = base::move_to_new(place.string(), (arrival->folder() / "removed").string());
        !gone)
      return gone;
  fs::remove_all(arrival->folder(), failed);
  if (failed)
    return fail(ErrorCode::unavailable,
                fmt::format("cannot delete {} ({})", text::shown_path(arrival->folder().string()),
                            failed.message()),
                "check its permissions");
  fs::remove(place.parent_path(), failed); // Unless other models of its makers are there.
  return {};
}

} // namespace paceline::apps::pull
