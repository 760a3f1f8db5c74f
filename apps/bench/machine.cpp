#include "apps/bench/machine.hpp"

#include "apps/bench/timed_step.hpp"
#include "apps/statistics.hpp"
#include "apps/steady_time.hpp"
#include "base/bf16.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/probe.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace paceline::apps {
namespace {

constexpr std::size_t read_bytes_max = std::size_t(1) << 30;
constexpr std::size_t read_unit = 4096;
constexpr int register_rounds = 200'000;
constexpr int product_rows = 512;
constexpr int product_size = 1024; // Inputs, and outputs.
constexpr int repetitions = 5;

std::vector<float> some_floats(std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = float(std::int32_t(state)) * 0x1p-31f;
  }
  return values;
}

} // namespace

Result<Machine> Machine::open(const ModelInfo& target, int threads) {
  Machine machine;
  auto device = gpu::open_device(target.device, {threads, std::make_shared<SteadyTime>(), nullptr});
  if (!device)
    return tl::unexpected(device.error());
  machine.device_ = std::move(*device);
  const std::size_t bytes = std::min(target.weight_bytes, read_bytes_max);
  auto memory = machine.device_->allocate((bytes + read_unit - 1) / read_unit * read_unit);
  if (!memory)
    return tl::unexpected(memory.error());
  machine.memory_ = std::move(*memory);
  std::memset(machine.memory_->data(), 1, machine.memory_->size()); // Pages of its own.
  auto lane = machine.device_->open_lane("target");
  if (!lane)
    return tl::unexpected(lane.error());
  machine.lane_ = std::move(*lane);
  return machine;
}

Result<double> Machine::read_bytes_per_second() {
  const std::span<const std::byte> all(memory_->data(), memory_->size());
  std::atomic<std::uint64_t> sum = 0;
  const auto seconds = time_on(*lane_, 1, [&](gpu::Operations& ops) {
    const auto cut = [&](int rank) {
      return all.size() / read_unit * std::size_t(rank) / std::size_t(ops.ranks()) * read_unit;
    };
    const std::size_t begin = cut(ops.rank());
    sum += gpu::cpu::read_once(all.subspan(begin, cut(ops.rank() + 1) - begin));
    ops.barrier();
  });
  return seconds.map([&](const auto& times) { return double(all.size()) / times[0]; });
}

Result<double> Machine::multiply_adds_per_second() {
  const auto kernels = gpu::cpu::choose_kernels();
  if (!kernels)
    return tl::unexpected(kernels.error());
  std::atomic<double> done = 0;
  const auto seconds = time_on(*lane_, repetitions, [&](gpu::Operations& ops) {
    const double multiply_adds = (*kernels)->multiply_adds(register_rounds);
    if (ops.rank() == 0)
      done = multiply_adds * ops.ranks();
    ops.barrier();
  });
  return seconds.map([&](const auto& times) { return done / median(times); });
}

Result<double> Machine::product_multiply_adds_per_second() {
  auto weights = some_floats(std::size_t(product_size) * product_size);
  std::vector<base::bf16> rounded;
  for (const float weight : weights)
    rounded.push_back(base::to_bf16(weight));
  const gpu::HostMatrix matrix{gpu::DType::bf16, rounded.data(), product_size, product_size};
  const auto weight = device_->pack({&matrix, 1});
  if (!weight)
    return tl::unexpected(weight.error());
  auto in = some_floats(std::size_t(product_rows) * product_size);
  auto out = in;
  const auto seconds = time_on(*lane_, repetitions, [&](gpu::Operations& ops) {
    ops.linear({out.data(), product_rows, product_size, product_size},
               {in.data(), product_rows, product_size, product_size}, **weight);
  });
  return seconds.map([&](const auto& times) {
    return double(product_rows) * product_size * product_size / median(times);
  });
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
