#include "gpu/cuda/kernels.hpp"
#include "tests/gpu/cuda/figures/bench.hpp"

#include <fmt/format.h>
#include <string_view>

namespace paceline::gpu::cuda::figures {

namespace {

constexpr std::size_t cache_bytes = std::size_t(200) << 20; ///< More than caches of GPUs hold.

constexpr std::string_view gated = "gated"; ///< The product whose blocks gate what they made.

void measure_product(const Bench& bench, const Shape& shape, std::string_view name, int outputs,
                     int inputs, WeightFormat format, const std::vector<int>& row_counts) {
  const auto layout = kernels::PackedLayout::of(format, outputs, inputs);
  const std::size_t bytes = layout.bytes();
  const int copies = bench.tiny ? 2 : int(cache_bytes / bytes) + 4;
  const auto memory = bench.weight(format, bytes * std::size_t(copies));
  fmt::print("  {:<5} {:<8} {:>6} x {:<5} {:<6}", shape.name, name, outputs, inputs,
             to_string(format));
  for (const int rows : row_counts) {
    const auto in = bench.rows(rows, inputs);
    const auto out = bench.allocate(std::size_t(rows) * std::size_t(outputs) * sizeof(float));
    const auto staged = bench.allocate(kernels::staged_bytes(rows, inputs));
    const kernels::StagedRows to{reinterpret_cast<std::uint16_t*>(staged->data())};
    PACELINE_CUDA_CHECK(kernels::stage(bench.stream.get(), to, in->tensor(rows, inputs)));
    const auto staged_out = bench.allocate(kernels::staged_bytes(rows, outputs / 2));
    const kernels::StagedRows to_out{reinterpret_cast<std::uint16_t*>(staged_out->data())};
    const auto multiply = [&](const Queue& queue, const kernels::PackedWeight& w) {
      if (name == gated)
        return kernels::linear_gate(queue, out->tensor(rows, outputs / 2), in->tensor(rows, inputs),
                                    to, w, Gating{Activation::silu}, to_out);
      return kernels::linear(queue, out->tensor(rows, outputs), in->tensor(rows, inputs), to, w,
                             false);
    };
    const double seconds =
        seconds_of(bench,
                   [&](const Queue& queue) {
                     for (int i = 0; i < copies; ++i)
                       PACELINE_CUDA_CHECK(multiply(
                           queue, {layout, memory->data() + std::size_t(i) * bytes, nullptr}));
                   }) /
        copies;
    fmt::print("  {:>7.1f} us {:.2f}", seconds * 1e6,
               double(bytes) / seconds / bench.bytes_per_second);
  }
  fmt::print("\n");
}

} // namespace

void measure_products(const Bench& bench, std::span<const Shape> shapes) {
  const std::vector<int> rows{1, 4, 8, 16, 32, 64, 512};
  const std::vector<int> few{1, 4, 8};
  fmt::print("products: us, and bytes of the weight over what the copy moves in that time, of 1, "
             "4, 8, 16, 32, 64 and 512 rows\n");
  for (const Shape& s : shapes) {
    measure_product(bench, s, "qkv", s.qkv(), s.hidden, WeightFormat::bf16, rows);
    measure_product(bench, s, "o", s.hidden, s.heads * s.head_dim, WeightFormat::bf16, rows);
    measure_product(bench, s, "gate_up", 2 * s.ffn, s.hidden, WeightFormat::bf16, rows);
    measure_product(bench, s, gated, 2 * s.ffn, s.hidden, WeightFormat::bf16, few);
    measure_product(bench, s, "down", s.hidden, s.ffn, WeightFormat::bf16, rows);
    measure_product(bench, s, "head", s.vocabulary, s.hidden, WeightFormat::bf16, rows);
  }
  using enum WeightFormat;
  for (const auto format :
       {mxfp8, mxfp6, mxfp4, mxint8, q4_0, q4_1, q5_0, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_xs})
    for (const Shape& s : shapes.first(2)) {
      if (s.hidden % 256 != 0 && has_scaled_codes(format))
        continue; // Blocks of 256 are whole.
      measure_product(bench, s, "o", s.hidden, s.heads * s.head_dim, format, rows);
      measure_product(bench, s, "gate_up", 2 * s.ffn, s.hidden, format, rows);
      measure_product(bench, s, gated, 2 * s.ffn, s.hidden, format, few);
    }
}

} // namespace paceline::gpu::cuda::figures
