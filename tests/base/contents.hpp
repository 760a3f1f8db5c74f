#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace paceline::testing {

/// What a file holds; nothing where there is none.
inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace paceline::testing
