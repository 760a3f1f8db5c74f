// Writing a safetensors file, tensor by tensor and in any order.
#pragma once

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

/// A new file whose header is written and whose room on the disk is taken when it is made. What is
/// never written is zero. Threads: one; `write` any.
class SafetensorsWriter {
public:
  /// Tensors lie in the order of their types' sizes, so that each is aligned.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorPlan> tensors);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  /// Bytes of a tensor from `first` on.
  Result<void> write(const std::string& name, std::size_t first, std::span<const std::byte> bytes);
  /// Nothing is written any more. The errors of what the system had kept back.
  Result<void> close();

private:
  SafetensorsWriter(std::string path, int file) : path_(std::move(path)), file_(file) {}
  Result<void> begin(const std::vector<TensorPlan>& tensors);
  Result<void> put(std::size_t at, std::span<const std::byte> bytes);
  tl::unexpected<Error> cannot(int error_number) const;

  std::string path_;
  int file_;
  std::map<std::string, std::size_t> places_; ///< Where a tensor's bytes begin.
};

} // namespace paceline::models
