// Files as strangers made them: mapped, and read within bounds.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace paceline::models {

/// A file mapped for reading. A file that shrinks while it is mapped is the user's own doing.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

private:
  MappedFile(std::string path, std::span<const std::byte> bytes);
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Lets the whole pages within a part of a mapped file leave memory; what is read again is read
/// from the file again.
void release_pages(std::span<const std::byte> part);

/// A file's JSON object, within the bounds of text/limits.hpp.
Result<boost::json::object> read_json_object(const std::string& path);

} // namespace paceline::models
