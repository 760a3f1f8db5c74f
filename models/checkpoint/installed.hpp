// Data that is installed with the program and the library.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace paceline::models {

/// `name` under the share/paceline of the prefix that this program, or this library, lies in.
std::optional<std::filesystem::path> installed_data(const std::string& name);

} // namespace paceline::models
