// The tensors of a checkpoint folder by name.
#pragma once

#include "gpu/tensor.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/safetensors.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Returns whether a tensor of this name holds the scales of a quantized one.
bool is_scale(std::string_view name);

/// Mapped files, checked when opened. A loader takes the tensors that it knows; any that nobody
/// took is unexpected. Threads: one.
class TensorFiles {
public:
  /// Opens `folder`/model.safetensors, or the shards that model.safetensors.index.json names.
  static Result<TensorFiles> open(const std::string& folder);

  /// Returns the type of all matrices, or f32 if they differ.
  gpu::DType dtype() const;
  /// Returns [rows, cols] as stored; valid as long as the checkpoint.
  Result<gpu::HostMatrix> matrix(std::string_view name, int rows, int cols);
  /// Returns rows [first, first + rows) of the matrices of a tensor of this shape, [count, height,
  /// cols], counted over all of them one below the other.
  Result<gpu::HostMatrix> matrix_in(std::string_view name, const std::vector<std::int64_t>& shape,
                                    std::int64_t first, int rows);
  /// Returns [size], converted to f32.
  Result<std::vector<float>> vector(std::string_view name, int size);
  /// Returns a convolution's weights, stored as [channels, 1, taps].
  Result<std::vector<float>> kernel(std::string_view name, int channels, int taps);
  /// Tells that tensors with this prefix will soon be needed: reading starts, if necessary.
  void read_ahead(std::string_view prefix) const;
  /// Tells that nobody needs the tensor's bytes any more: its pages of the file may leave memory.
  void release(std::string_view name);
  bool has(std::string_view name) const { return tensors_.contains(name); }
  /// Returns whether both are there, with the same numbers.
  bool same(std::string_view a, std::string_view b) const;
  /// Marks a tensor that changes nothing here (such as a stored copy of the rotary frequencies).
  void ignore(std::string_view name);
  /// Ignores all tensors whose names have this prefix.
  void ignore_all(std::string_view prefix);
  /// Forgets the tensors whose names `wanted` does not take, as if no file had them.
  void keep_only(const std::function<bool(std::string_view)>& wanted);
  /// Takes a tensor of any type; a shape other than `shape` is refused. parameters: how many it
  /// counts as.
  Result<const TensorEntry*> take(std::string_view name, const std::vector<std::int64_t>& shape,
                                  std::uint64_t parameters);
  /// Returns a tensor's numbers as f32; bytes are powers of two (E8M0).
  Result<std::vector<float>> numbers(const TensorEntry& entry);
  /// Returns null if there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  /// Returns the file of a tensor that is there.
  const MappedFile& file_of(std::string_view name) const;
  /// Makes an error that names the tensor and its file.
  tl::unexpected<Error> wrong(std::string_view name, std::string_view what) const;
  struct Stored {
    const TensorEntry* entry;
    std::size_t file; ///< Index of `files`.
  };
  std::vector<Stored> tensors() const;    ///< All tensors by name, valid as long as the checkpoint.
  std::vector<std::string> files() const; ///< Paths of the files.

  /// Returns an error that names the first tensor nobody took.
  Result<void> check_all_taken() const;
  std::uint64_t parameters() const { return parameters_; } ///< Parameters of the tensors taken.

private:
  struct Tensor {
    TensorEntry entry;
    std::size_t file = 0; ///< Index of files_.
    bool taken = false;
  };
  explicit TensorFiles(std::string folder) : folder_(std::move(folder)) {}
  Result<void> add_file(const std::string& path);
  Result<void> add_shards(const std::string& index);
  Result<gpu::DType> number_format(const TensorEntry& entry) const;
  const void* aligned(StoredType type, std::span<const std::byte> bytes);

  std::string folder_;
  std::vector<MappedFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  /// Copies of tensors that are misaligned in the file.
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  std::uint64_t parameters_ = 0;
};

} // namespace paceline::models
