#include "apps/laboratory/bench/machine.hpp"

#include "apps/console/statistics.hpp"
#include "apps/laboratory/timed_step.hpp"
#include "base/bf16.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/probe.hpp"
#include "gpu/cpu/topology.hpp"
#include "gpu/cpu/weight.hpp"
#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <vector>

namespace paceline::apps {
namespace {

constexpr int register_rounds = 200'000;
constexpr int product_rows = 512;
constexpr int product_size = 1024; // Number of inputs, and of outputs.
constexpr int barriers = 10'000;
constexpr int repetitions = 5;
constexpr std::size_t read_piece = 256 << 10;

std::vector<float> some_floats(std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = float(std::int32_t(state)) * 0x1p-31f;
  }
  return values;
}

/// Returns the time of the best repetition, which shows the peak.
double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

Result<double> multiply_adds_per_second(gpu::Lane& lane) {
  const auto kernels = gpu::cpu::choose_kernels();
  if (!kernels)
    return tl::unexpected(kernels.error());
  std::atomic<double> done = 0;
  const auto seconds = time_on(lane, repetitions, [&](gpu::Operations& ops) {
    const double multiply_adds = (*kernels)->multiply_adds(register_rounds);
    if (ops.rank() == 0)
      done = multiply_adds * ops.ranks();
    ops.barrier();
  });
  return seconds.map([&](const auto& times) { return done / least(times); });
}

Result<double> product_multiply_adds_per_second(gpu::Device& device, gpu::Lane& lane) {
  constexpr int n = product_size;
  std::vector<base::bf16> rounded;
  for (const float weight : some_floats(std::size_t(n) * n))
    rounded.push_back(base::to_bf16(weight));
  const gpu::HostMatrix matrix{gpu::DType::bf16, rounded.data(), n, n};
  const auto weight = device.pack({&matrix, 1});
  if (!weight)
    return tl::unexpected(weight.error());
  auto in = some_floats(std::size_t(product_rows) * n);
  auto out = in;
  const auto seconds = time_on(lane, repetitions, [&](gpu::Operations& ops) {
    ops.linear({out.data(), product_rows, n, n}, {in.data(), product_rows, n, n}, **weight);
  });
  return seconds.map(
      [&](const auto& times) { return double(product_rows) * n * n / least(times); });
}

Result<double> barrier_seconds(gpu::Lane& lane) {
  const auto seconds = time_on(lane, repetitions, [](gpu::Operations& ops) {
    for (int i = 0; i < barriers; ++i)
      ops.barrier();
  });
  return seconds.map([](const auto& times) { return median(times) / barriers; });
}

/// Reads a weight together with the other threads that call it; each takes the next piece when it
/// is free. Memory serves cores unevenly, and the limit is the rate of all together.
std::uint64_t read_together(const gpu::Weight& weight, std::atomic<int>& next) {
  const auto& packed = dynamic_cast<const gpu::cpu::PackedWeight&>(weight);
  const int tiles = std::max(1, int(read_piece / packed.tile_bytes()));
  std::uint64_t sum = 0;
  for (int first = 0; (first = next.fetch_add(tiles)) < packed.tiles();)
    sum += gpu::cpu::read_once(
        {packed.tile(first), packed.tile(std::min(first + tiles, packed.tiles()))});
  return sum;
}

} // namespace

double bytes_of(Weights weights) {
  double bytes = 0;
  for (const auto& weight : weights)
    bytes += double(weight->bytes());
  return bytes;
}

Result<std::vector<double>> time_reads(gpu::Lane& lane, Weights weights, int times) {
  std::vector<const gpu::Weight*> parts;
  for (const auto& weight : weights)
    gpu::for_each_part(*weight, [&](const gpu::Weight& part, int) { parts.push_back(&part); });
  std::atomic<std::uint64_t> sum = 0;
  std::vector<std::atomic<int>> next(parts.size());
  return time_on(lane, times, [&](gpu::Operations& ops) {
    std::uint64_t own = 0;
    for (std::size_t i = 0; i < parts.size(); ++i)
      own += read_together(*parts[i], next[i]);
    sum += own;
    ops.barrier();
    if (ops.rank() == 0)
      std::fill(next.begin(), next.end(), 0);
    ops.barrier();
  });
}

Result<MachineFigures> measure_machine(gpu::Device& device, gpu::Lane& lane) {
  const auto registers = multiply_adds_per_second(lane);
  if (!registers)
    return tl::unexpected(registers.error());
  const auto product = product_multiply_adds_per_second(device, lane);
  if (!product)
    return tl::unexpected(product.error());
  const auto barrier = barrier_seconds(lane);
  if (!barrier)
    return tl::unexpected(barrier.error());
  return MachineFigures{int(gpu::cpu::usable_cores().size()), 0, *registers, *product, *barrier};
}

std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  std::size_t kib = 0;
  while (status >> key)
    if (key == "VmHWM:" && status >> kib)
      return kib << 10;
  return 0;
}

} // namespace paceline::apps
