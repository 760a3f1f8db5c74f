#include "models/checkpoint/installed.hpp"

#include <array>
#include <dlfcn.h>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

/// Returns the file that this code was loaded from, which may be the shared library.
fs::path this_file() {
  Dl_info info{};
  const auto* here = reinterpret_cast<const void*>(&installed_data);
  return dladdr(here, &info) != 0 && info.dli_fname ? fs::path(info.dli_fname) : fs::path();
}

} // namespace

std::optional<fs::path> installed_data(const std::string& name) {
  constexpr int levels = 3; // prefix/bin/program, prefix/lib/<machine>/library
  std::error_code failed;
  for (const fs::path& file : std::array{this_file(), fs::path("/proc/self/exe")}) {
    fs::path place = fs::canonical(file, failed); // no links or ".." left
    for (int i = 0; i < levels && place.has_relative_path(); ++i) {
      place = place.parent_path();
      if (const fs::path data = place / "share/paceline" / name; fs::exists(data, failed))
        return data;
    }
  }
  return {};
}

} // namespace paceline::models
