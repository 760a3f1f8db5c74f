// What the kernels of the CUDA back end cost on cuda:0, beside what its memory can do:
//   cuda_figures [tiny] [PART...]     parts: products attention small sampling steps streams
// Without parts it measures all. `tiny` takes shapes that an emulated GPU manages. No model is
// needed: weights are random numbers, and every product reads others than the one before it, more
// in all than the second-level cache holds. Each figure is the median of replays of a CUDA graph.
#include "tests/gpu/cuda/figures/bench.hpp"

#include <array>
#include <exception>
#include <fmt/format.h>
#include <set>
#include <string>

namespace paceline::gpu::cuda::figures {
namespace {

constexpr std::array full_shapes{Shape{"8b", 32, 4096, 14336, 32, 8, 128, 128256},
                                 Shape{"1b", 16, 2048, 8192, 32, 8, 64, 128256},
                                 Shape{"0.6b", 28, 1024, 3072, 16, 8, 128, 151936}};
constexpr std::array tiny_shapes{Shape{"tiny", 2, 64, 96, 4, 2, 16, 256},
                                 Shape{"less", 1, 32, 64, 2, 1, 16, 256}};

void measure_copy(Bench& bench) {
  const std::size_t bytes = bench.tiny ? 4096 : std::size_t(2) << 30;
  const auto from = bench.noise(bytes);
  const auto to = bench.allocate(bytes);
  const double seconds = seconds_of(bench.stream.get(), [&] {
    PACELINE_CUDA_CHECK(cudaMemcpyAsync(to->data(), from->data(), bytes, cudaMemcpyDeviceToDevice,
                                        bench.stream.get()));
  });
  bench.bytes_per_second = 2 * double(bytes) / seconds;
  fmt::print("copy of {} MiB: {:.0f} GB/s read and written\n", bytes >> 20,
             bench.bytes_per_second * 1e-9);
}

void measure(std::set<std::string> parts) {
  const bool tiny = parts.erase("tiny") > 0;
  const auto wanted = [&](const char* part) { return parts.empty() || parts.count(part) > 0; };
  const std::span<const Shape> shapes = tiny ? std::span<const Shape>(tiny_shapes) : full_shapes;
  Bench bench(tiny);
  measure_copy(bench);
  if (wanted("products"))
    measure_products(bench, shapes);
  if (wanted("attention"))
    measure_attention(bench, shapes);
  if (wanted("small"))
    measure_small(bench, shapes);
  if (wanted("sampling"))
    measure_sampling(bench);
  if (wanted("steps"))
    measure_steps(bench, shapes);
  if (wanted("streams"))
    measure_streams(bench, shapes);
}

} // namespace
} // namespace paceline::gpu::cuda::figures

int main(int argc, char** argv) {
  try {
    paceline::gpu::cuda::figures::measure({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "cuda_figures: {}\n", e.what());
    return 1;
  }
}
