// A folder of a test's own.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace paceline::testing {

/// Gone with this object, and all that is in it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "paceline_test_XXXXXX").string();
    if (!mkdtemp(path_.data()))
      throw std::system_error(errno, std::generic_category(), path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// The file's path. Folders on the way are made; what a link led to stays as it is.
  std::string write(const std::string& name, std::string_view contents) const {
    std::filesystem::remove(file(name));
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary) << contents;
    return file(name);
  }
  /// Files and folders in it.
  int entries() const { return int(std::distance(std::filesystem::directory_iterator(path_), {})); }

private:
  std::string path_;
};

} // namespace paceline::testing
