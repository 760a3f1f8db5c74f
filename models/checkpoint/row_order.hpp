// Matrices whose rows a file has in another order than a TensorSource hands them out, or as
// columns.
#pragma once

#include "gpu/tensor.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/families.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace paceline::models {

/// The order in which a file has the rows of queries, keys and values (HeadOrder). Here they are
/// queries of all heads, then keys, then values; and of a head's rotated rows, those that are
/// rotated together are half of them apart. All numbers are counts of rows.
struct RowOrder {
  int head = 1;    ///< A head's.
  int rotated = 0; ///< The first ones of a head: pairs of them are neighbours in the file; 0: none.
  int paired = 0;  ///< The first ones of the matrix, whose heads are rotated.
  int parts = 1;   ///< Parts of the file's matrix that have queries, keys and values of their own.
  bool values_first = false; ///< Each part has values before keys.
  int third = 0; ///< Queries, of which there are as many as keys and values, with parts.

  bool is_own() const { return (rotated == 0 || paired == 0) && parts == 1; }
  /// Returns the row of the file's matrix that is this row of ours.
  int in_file(int row) const;
};

/// Returns the order of a tensor of this role; of most it is ours.
RowOrder row_order(TensorRole role, const ModelConfig& config, const HeadOrder& heads);

/// Makes copies of matrices in our order, and owns them. Threads: one.
class OrderedMatrices {
public:
  /// Returns `stored` with its rows in our order.
  gpu::HostMatrix ordered(const gpu::HostMatrix& stored, const RowOrder& order);
  /// Returns a matrix of numbers with its columns as rows.
  gpu::HostMatrix transposed(const gpu::HostMatrix& stored);
  std::byte* keep(std::size_t bytes); ///< Returns memory for a copy that the caller fills.
  void release() { copies_.clear(); } ///< Tells that nobody needs the copies any more.

private:
  const std::byte* take(const void* from, int rows, std::size_t row_bytes, const RowOrder& order);

  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

} // namespace paceline::models
