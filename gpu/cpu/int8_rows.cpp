#include "gpu/cpu/int8_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace paceline::gpu::cpu {
namespace {

float absolute_most(const float* inputs, int count) {
  float most = 0;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(inputs[i]))
      return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::abs(inputs[i]));
  }
  return most;
}

} // namespace

Int8Rows::Int8Rows(const PackedWeight& w, int rows)
    : rows_(rows), padded_(w.padded_inputs()), blocks_(w.blocks()),
      parts_(w.padded_inputs() / w.integers()->part) {}

Int8Block round_to_int8(const float* inputs, int count) {
  Int8Block block;
  const float most = absolute_most(inputs, count);
  if (std::isnan(most))
    block.scale = most;
  if (!(most >= int8_least))
    return block;
  block.scale = most / 127;
  const float factor = 127 / most;
  for (int i = 0; i < count; ++i)
    block.codes[std::size_t(i)] = std::int8_t(std::nearbyint(inputs[i] * factor));
  return block;
}

void stage_int8(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last) {
  const IntegerCodes& how = *w.integers();
  const bool least = w.has_least();
  const Int8Rows at(w, in.rows);
  for (int r = first; r < last; ++r)
    for (int b = 0; b < w.blocks(); ++b) {
      const int begin = b * mx_block;
      const Int8Block block = round_to_int8(in.row(r) + begin, std::min(mx_block, in.cols - begin));
      std::memcpy(staged + at.codes(r, b), block.codes.data(), mx_block);
      std::memcpy(staged + at.scale(r, b), &block.scale, sizeof(float));
      for (int i = 0; i < mx_block; i += how.part) {
        int sum = 0;
        for (int j = i; j < i + how.part; ++j)
          sum += block.codes[std::size_t(j)];
        const float scaled = block.scale * float(sum);
        const std::int32_t shifted = -how.offset * sum;
        std::memcpy(staged + at.added(r, (begin + i) / how.part),
                    least ? static_cast<const void*>(&scaled) : &shifted, sizeof(float));
      }
    }
}

void linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                 bool add) {
  const int part = w.integers()->part;
  const Int8Rows at(w, out.rows);
  PackedWeight::Integers weights;
  for (int o = run.first * tile_outputs; o < std::min(run.last * tile_outputs, w.outputs()); ++o) {
    w.read_integers(o, weights);
    for (int r = 0; r < out.rows; ++r) {
      float sum = 0;
      for (int i = 0; i < w.padded_inputs(); i += part) {
        const auto* codes =
            reinterpret_cast<const std::int8_t*>(staged + at.codes(r, i / mx_block) + i % mx_block);
        float scale;
        std::memcpy(&scale, staged + at.scale(r, i / mx_block), sizeof(scale));
        int dot = 0;
        for (int j = 0; j < part; ++j)
          dot += codes[j] * weights.numbers[std::size_t(i + j)];
        const auto index = std::size_t(i / part);
        sum = std::fma(weights.scales[index] * scale, float(dot), sum);
        if (w.has_least()) {
          float inputs;
          std::memcpy(&inputs, staged + at.added(r, int(index)), sizeof(inputs));
          sum = std::fma(weights.leasts[index], inputs, sum);
        }
      }
      out.row(r)[o] = sum + (add ? out.row(r)[o] : 0);
    }
  }
}

} // namespace paceline::gpu::cpu
