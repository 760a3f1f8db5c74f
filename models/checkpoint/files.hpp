// Files made by strangers: they are mapped, and read within bounds.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// A file mapped for reading. It must not shrink while it is mapped; only `read` guards against
/// that.
class MappedFile final : public gpu::HostFile {
public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile() override;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  Result<void> read(const std::byte* from, std::span<std::byte> to) const override;
  /// Starts to read a part that will soon be needed, and does not wait for it.
  void read_ahead(std::span<const std::byte> part) const;

private:
  MappedFile(std::string path, int descriptor, std::span<const std::byte> bytes);
  bool is_in_memory(const std::byte* at) const;

  std::string path_;
  int descriptor_; ///< -1: the file is empty, or was moved.
  std::span<const std::byte> bytes_;
};

/// Returns what lies in a folder, sorted; nothing if it cannot be read.
std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder);

/// Lets the whole pages within a part of a mapped file leave memory; if they are read again, they
/// come from the file.
void release_pages(std::span<const std::byte> part);

/// Reads a file's JSON object, within the bounds of text/limits.hpp. It may have words of Python's
/// (text::with_tagged_numbers).
Result<boost::json::object> read_json_object(const std::string& path);

} // namespace paceline::models
