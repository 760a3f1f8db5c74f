// What all fuzz targets share: each defines `fuzz`, which must take any input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace paceline::testing {

void fuzz(std::string_view input);

/// A promise of the code under test.
inline void require(bool holds, const char* what) {
  if (holds)
    return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// A folder of this process that holds one file, rewritten for each input.
class OneFile {
public:
  explicit OneFile(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("paceline-fuzz-" + std::to_string(::getpid()))),
        file_(folder_ / name) {
    std::filesystem::create_directories(folder_);
  }
  ~OneFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string folder() const { return folder_.string(); }
  void write(std::string_view text) const {
    std::ofstream(file_, std::ios::binary).write(text.data(), std::streamsize(text.size()));
  }

private:
  std::filesystem::path folder_;
  std::filesystem::path file_;
};

} // namespace paceline::testing
