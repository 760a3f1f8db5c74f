// Transposes matrices as they are read from files.
#pragma once

#include "gpu/shares.hpp"

#include <algorithm>
#include <cstddef>

namespace paceline::models {

/// Sets to[r, c] = from[c, first + step * r]; to: [rows, cols], from: [cols, width].
template <class Word>
void transpose(const Word* from, int width, int first, int step, Word* to, int rows, int cols) {
  // Rows that are written together read a few lines of the cache of each row of the source.
  constexpr int rows_together = 32;
  const int runs = (rows + rows_together - 1) / rows_together;
  const std::size_t bytes = std::size_t(rows) * std::size_t(cols) * sizeof(Word);
  gpu::for_shares(runs, bytes, [=](int begin, int end) {
    for (int run = begin; run < end; ++run) {
      const int last = std::min((run + 1) * rows_together, rows);
      for (int c = 0; c < cols; ++c)
        for (int r = run * rows_together; r < last; ++r)
          to[std::ptrdiff_t(r) * cols + c] = from[std::ptrdiff_t(c) * width + first + step * r];
    }
  });
}

} // namespace paceline::models
