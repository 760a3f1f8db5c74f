// Rows of floats that are lent by reference count: the q of each drafted position.
#pragma once

#include "gpu/device.hpp"
#include "speculation/chain.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::execution {

/// A pool that grows by slabs as chains need rows, up to a bound. It frees a slab whose rows are
/// all back when more than half of the rest stays free. Threads: any.
class RowPool : public std::enable_shared_from_this<RowPool> {
public:
  struct Config {
    std::shared_ptr<gpu::Device> writer; ///< Lanes of both devices use the rows.
    std::shared_ptr<gpu::Device> reader; ///< Null: the writer.
    int row_length = 0;                  ///< Floats of a row.
    std::size_t rows_max = 0;            ///< Most rows lent at a time, by the memory budget.
  };
  explicit RowPool(Config config);

  int row_length() const { return config_.row_length; }
  /// Lends a row of unspecified contents. Null: fewer than `spare` others would be left to lend, or
  /// the device has no memory for it.
  speculation::QRow take(std::size_t spare = 0);

  /// Rows that there is memory for now.
  std::size_t allocated() const;

private:
  struct Slab {
    std::shared_ptr<gpu::Buffer> memory;
    gpu::Tensor rows; // [rows, row_length]
    std::vector<float*> free;
    bool whole() const { return int(free.size()) == rows.rows; }
  };
  Slab* slab_with_room();
  void give_back(float* row);
  void shrink(std::vector<Slab>& unused);

  const Config config_;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_; ///< Rows are taken from the first that has some, so that others empty.
  std::size_t allocated_ = 0;
  std::size_t lent_ = 0;
};

} // namespace paceline::execution
