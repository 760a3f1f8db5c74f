// Writes a GGUF file, tensor by tensor and in any order.
#pragma once

#include "models/checkpoint/gguf.hpp"
#include "models/checkpoint/new_file.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::models {

/// The metadata of a file to be written. Keys keep the order in which they were put first.
class GgufMetadata {
public:
  /// Puts a value in place of an older one of the key.
  void put(std::string_view key, std::uint32_t value);
  void put(std::string_view key, float value);
  void put(std::string_view key, bool value);
  void put(std::string_view key, std::string_view value);
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, const std::vector<bool>& values);
  void put(std::string_view key, const std::vector<std::int32_t>& values);
  void put(std::string_view key, const std::vector<float>& values);
  void put(std::string_view key, const std::vector<std::string>& values);
  void put(std::string_view key, const GgufValue& value); ///< Another file's.

  std::uint64_t keys() const { return entries_.size(); }
  std::string bytes() const; ///< As they stand in a file.

private:
  void set(std::string_view key, std::string bytes);

  std::vector<std::pair<std::string, std::string>> entries_; ///< Keys, and types with values.
};

/// A tensor to be written.
struct GgufTensorPlan {
  std::string name;
  GgufType type;
  std::vector<std::int64_t> shape; ///< Slowest dimension first. Its type can have it.

  std::size_t bytes() const;
};

/// A new file. When it is made its header is written and its room on the disk is taken. Bytes that
/// are never written are zero. Threads: one; `write` any.
class GgufFileWriter {
public:
  static Result<GgufFileWriter> create(const std::string& path, const GgufMetadata& metadata,
                                       const std::vector<GgufTensorPlan>& tensors);

  /// Writes bytes of a tensor from byte `first` on.
  Result<void> write(const std::string& name, std::size_t first, std::span<const std::byte> bytes) {
    return file_.write(places_.at(name) + first, bytes);
  }
  Result<void> close() { return file_.close(); } ///< NewFile::close

private:
  explicit GgufFileWriter(NewFile file) : file_(std::move(file)) {}

  NewFile file_;
  std::map<std::string, std::size_t> places_; ///< Offsets of the tensors' bytes in the file.
};

} // namespace paceline::models
