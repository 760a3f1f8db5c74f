// Files that tests read: the demo pair, and what stands under their own folder's data/.
#pragma once

#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace paceline::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, path.string());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A file of the test program's data, parsed.
inline boost::json::value data(const std::string& name) {
  return boost::json::parse(read_file(std::filesystem::path(PACELINE_TEST_DATA) / name));
}

/// The folder of the demo pair's model.
inline std::string demo(const std::string& role) {
  return std::string(PACELINE_DEMO_MODELS) + "/" + role;
}

} // namespace paceline::testing
