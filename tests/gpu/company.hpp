// Whether a row of a product depends on the rows beside it.
#pragma once

#include "tests/gpu/rig.hpp"

#include <span>
#include <string>

namespace paceline::gpu::testing {

/// Multiplies random rows with a weight, each alone, and checks that they have the same bits in
/// batches of so many rows, on 1 to 3 ranks if the backend has ranks.
inline void check_company(const std::string& backend, const HostMatrix& host, Matrix in,
                          std::span<const int> counts) {
  const Rig alone(backend, 1);
  const auto weight = alone.device->pack({&host, 1}).value();
  Matrix reference(0, host.rows);
  for (int r = 0; r < in.rows; ++r) {
    Matrix one = in.slice(r, 1);
    const Matrix out = product(alone, *weight, one);
    reference.values.insert(reference.values.end(), out.values.begin(), out.values.end());
    ++reference.rows;
  }
  for (int threads = 1; threads <= (is_cuda(backend) ? 1 : 3); ++threads) {
    CAPTURE(threads);
    const Rig rig(backend, threads);
    for (const int rows : counts) {
      CAPTURE(rows);
      Matrix part = in.slice(in.rows - rows, rows);
      CHECK(product(rig, *weight, part) == reference.slice(in.rows - rows, rows));
    }
  }
}

} // namespace paceline::gpu::testing
