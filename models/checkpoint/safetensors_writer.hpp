// Writes a safetensors file, tensor by tensor and in any order.
#pragma once

#include "models/checkpoint/new_file.hpp"
#include "models/checkpoint/safetensors.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

/// A tensor to be written.
struct TensorPlan {
  std::string name;
  StoredType type;
  std::vector<std::int64_t> shape;

  std::size_t bytes() const;
};

/// A new file. When it is made its header is written and its room on the disk is taken. Bytes that
/// are never written are zero. Threads: one; `write` any.
class SafetensorsWriter {
public:
  /// Makes a file in which tensors lie in the order of their types' sizes, so that each is aligned.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorPlan> tensors);

  /// Writes bytes of a tensor from byte `first` on.
  Result<void> write(const std::string& name, std::size_t first, std::span<const std::byte> bytes) {
    return file_.write(places_.at(name) + first, bytes);
  }
  Result<void> close() { return file_.close(); } ///< NewFile::close

private:
  explicit SafetensorsWriter(NewFile file) : file_(std::move(file)) {}
  Result<void> begin(const std::vector<TensorPlan>& tensors);

  NewFile file_;
  std::map<std::string, std::size_t> places_; ///< Offsets of the tensors' bytes in the file.
};

} // namespace paceline::models
