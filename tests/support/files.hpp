// Files that tests read: the demo pair, and what stands under their own folder's data/.
#pragma once

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace paceline::testing {

/// Throws where there is none.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw std::runtime_error("cannot read " + path.string());
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
