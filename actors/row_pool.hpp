// Rows of floats that are lent by reference count: the q of each drafted position.
#pragma once

#include "gpu/device.hpp"
#include "messages/chain.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace paceline::actors {

/// Grows by slabs as chains need rows, and never shrinks: the number of rows out is bounded by
/// sequences x positions of a chain. Threads: any.
class RowPool : public std::enable_shared_from_this<RowPool> {
public:
  RowPool(std::shared_ptr<gpu::Device> device, int row_length)
      : device_(std::move(device)), row_length_(row_length) {}

  int row_length() const { return row_length_; }
  /// A row of unspecified contents, or null when the device has no memory for more.
  messages::QRow take();

private:
  void give_back(float* row);

  std::shared_ptr<gpu::Device> device_;
  int row_length_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<gpu::Buffer>> slabs_;
  std::vector<float*> free_;
};

} // namespace paceline::actors
