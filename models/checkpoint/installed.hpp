// Finds data that is installed with the program or the library.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace paceline::models {

/// Returns `name` under the share/paceline of the prefix in which this program, or this library,
/// lies.
std::optional<std::filesystem::path> installed_data(const std::string& name);

} // namespace paceline::models
