// What lies on this machine under names, with sizes and dates, and how it is removed.
#pragma once

#include "models/checkpoint/model_name.hpp"
#include "models/checkpoint/stores.hpp"
#include "paceline/error.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline::apps::pull {

/// Returns the folder of pulled models (models::own_models). Error: the user has none.
Result<std::filesystem::path> shelf();

struct ShelfModel {
  models::ModelName name;
  models::Store store = models::Store::paceline;
  std::string kind; ///< "safetensors", "gguf", or "unfinished": a pull that ended early.
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point modified{};
  std::string location;
};

/// Lists the models of all stores, and behind them what is unfinished.
std::vector<ShelfModel> shelf_models();

/// Finds a pulled model, or an unfinished one, by its name, whose variant may be left out where
/// there is only one. Errors: there is none (it may be another program's), or there are several.
Result<ShelfModel> find_pulled(const std::string& name);

/// Removes a pulled model and what is unfinished of it. Its name is gone at once. Errors: the
/// system's; it is being fetched.
Result<void> remove_pulled(const models::ModelName& name);

} // namespace paceline::apps::pull
