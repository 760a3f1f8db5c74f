// Rows of floats that are lent by reference count: the q of each drafted position.
#pragma once

#include "gpu/device.hpp"
#include "speculation/chain.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace paceline::execution {

/// Grows by slabs as chains need rows, and never shrinks: the number of rows out is bounded by
/// sequences x positions of a chain. Threads: any.
class RowPool : public std::enable_shared_from_this<RowPool> {
public:
  /// Lanes of both devices use the rows. reader: null where it is the writer.
  RowPool(std::shared_ptr<gpu::Device> writer, std::shared_ptr<gpu::Device> reader, int row_length)
      : writer_(std::move(writer)), reader_(reader ? std::move(reader) : writer_),
        row_length_(row_length) {}

  int row_length() const { return row_length_; }
  /// A row of unspecified contents, or null when the device has no memory for more.
  speculation::QRow take();

private:
  void give_back(float* row);

  std::shared_ptr<gpu::Device> writer_;
  std::shared_ptr<gpu::Device> reader_;
  int row_length_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<gpu::Buffer>> slabs_;
  std::vector<float*> free_;
};

} // namespace paceline::execution
