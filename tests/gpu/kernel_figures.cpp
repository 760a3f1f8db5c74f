// What single kernels of the CPU's families cost on this machine, on one thread and in turn:
//   kernel_figures [SECONDS [attention]]     (default 1 per line; attention: of nothing else)
// Products of bf16 weights that come from memory or a far cache; of weights of all formats, by the
// fastest family; attention over caches of bf16 and int8, a row at a time as in decoding and many
// as in a prompt; a row through all states of a recurrent model. Medians, with quartiles; of
// formats also the least, which is what a busy machine leaves of a figure.
#include "apps/console/steady_time.hpp"
#include "base/bf16.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/device.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::cpu;

namespace {

constexpr std::size_t weight_bytes = std::size_t(128) << 20; ///< More than most caches hold.
constexpr int tiles_at_a_time = 24;
constexpr int page_tokens = 16;

std::mt19937 random_bits(1);

std::vector<float> normal_floats(std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random_bits); });
  return values;
}

Tensor tensor(std::vector<float>& values, int rows) {
  const int cols = int(values.size()) / rows;
  return {values.data(), rows, cols, cols};
}

/// Seconds of `once` with each of `all`, in turn.
template <class T, class F>
std::vector<std::vector<double>> in_turn(const std::vector<const T*>& all, double seconds,
                                         const F& once) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> times(all.size());
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end || times.back().size() < 3)
    for (std::size_t i = 0; i < all.size(); ++i) {
      once(*all[i]); // So that each finds in the caches what it left there.
      const auto begin = Clock::now();
      once(*all[i]);
      times[i].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  for (auto& each : times)
    std::sort(each.begin(), each.end());
  return times;
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[std::size_t(share * double(sorted.size() - 1))];
}

/// multiply_adds: of one call; 0: not told.
void print(const std::string& what, const std::vector<const Kernels*>& families,
           const std::vector<std::vector<double>>& times, double multiply_adds) {
  fmt::print("{}\n", what);
  for (std::size_t i = 0; i < families.size(); ++i) {
    const double middle = quantile(times[i], 0.5);
    fmt::print("  {:<14} {:>9.2f} us  ({:.2f} to {:.2f})", families[i]->name(), middle * 1e6,
               quantile(times[i], 0.25) * 1e6, quantile(times[i], 0.75) * 1e6);
    if (multiply_adds > 0)
      fmt::print("  {:>5.0f} G multiply-adds/s", multiply_adds / middle * 1e-9);
    fmt::print("\n");
  }
}

void peaks(const std::vector<const Kernels*>& families) {
  constexpr int rounds = 20'000;
  double count = 0;
  const auto times =
      in_turn(families, 0.2, [&](const Kernels& k) { count = k.multiply_adds(rounds); });
  fmt::print("peak of the product instruction, from registers\n");
  for (std::size_t i = 0; i < families.size(); ++i) {
    count = families[i]->multiply_adds(rounds);
    fmt::print("  {:<14} {:>5.0f} G multiply-adds/s\n", families[i]->name(),
               count / times[i].front() * 1e-9);
  }
}

void products(const std::vector<const Kernels*>& families, double seconds, int rows, int inputs) {
  const int outputs = int(weight_bytes / sizeof(base::bf16)) / inputs;
  std::vector<base::bf16> values(std::size_t(outputs) * std::size_t(inputs));
  std::generate(values.begin(), values.end(),
                [] { return base::to_bf16(float(random_bits() % 2001) / 1000 - 1); });
  const HostMatrix host{DType::bf16, values.data(), outputs, inputs};
  const auto packed = PackedWeight::pack({&host, 1}).value();
  const auto& weight = dynamic_cast<const PackedWeight&>(*packed);
  auto in = normal_floats(std::size_t(rows) * std::size_t(inputs));
  const auto out = allocate_host(std::size_t(rows) * std::size_t(outputs) * sizeof(float)).value();
  std::map<const Kernels*, Scratch> staged; // Once for all outputs of a weight.
  for (const Kernels* k : families)
    k->stage(staged[k].at_least(k->staged_bytes(rows, weight)), tensor(in, rows), weight, 0, rows);
  Scratch scratch;
  int tile = 0;
  const auto times = in_turn(families, seconds, [&](const Kernels& k) {
    k.linear(out->tensor(rows, outputs), staged[&k].at_least(0), weight,
             {tile, tile + tiles_at_a_time}, false, scratch);
    tile = (tile + tiles_at_a_time) % (weight.tiles() - tiles_at_a_time);
  });
  print(fmt::format("product of {} rows, {} inputs, {} outputs", rows, inputs,
                    tiles_at_a_time * tile_outputs),
        families, times, double(rows) * inputs * tiles_at_a_time * tile_outputs);
}

/// Their numbers may be any: no time depends on them.
std::shared_ptr<const Weight> any_blocks(GgufFormat format, int outputs, int inputs,
                                         bool int8_rows) {
  const int blocks = outputs * (inputs / block_elements(format));
  std::vector<std::byte> bytes(std::size_t(blocks) * gpu::block_bytes(format));
  std::generate(bytes.begin(), bytes.end(), [] { return std::byte(random_bits()); });
  HostMatrix host{DType::f32, bytes.data(), outputs, inputs};
  host.blocks = format;
  host.int8_rows = int8_rows;
  return PackedWeight::pack({&host, 1}).value();
}

/// Returns as many outputs as fit no cache, which few rows wait for. Products of many rows, which
/// decode what they multiply, take so long that less will do.
int outputs_for(int rows, int inputs) {
  return int(weight_bytes / (rows > 64 ? 16 : 1) / sizeof(base::bf16)) / inputs;
}

/// The same weights in all formats.
void formats(const Kernels& k, double seconds, int rows, int inputs) {
  const int outputs = outputs_for(rows, inputs);
  std::vector<base::bf16> values(std::size_t(outputs) * std::size_t(inputs));
  std::generate(values.begin(), values.end(),
                [] { return base::to_bf16(float(random_bits() % 2001) / 1000 - 1); });
  HostMatrix host{DType::bf16, values.data(), outputs, inputs};
  std::vector<std::shared_ptr<const Weight>> packed{PackedWeight::pack({&host, 1}).value()};
  const auto add = [&](std::shared_ptr<const Weight> weight, bool int8_rows) {
    if (!int8_rows || weight->rounds_to_int8())
      packed.push_back(std::move(weight));
  };
  for (const bool int8_rows : {false, true}) {
    host.int8_rows = int8_rows;
    for (int format = int(WeightFormat::mxfp8); format <= int(WeightFormat::mxint8); ++format) {
      host.quantization = Quantization{WeightFormat(format), ScaleChoice::search};
      add(PackedWeight::pack({&host, 1}).value(), int8_rows);
    }
    for (const GgufFormat format : gguf_formats)
      if (const auto kept = weight_format(format); kept && !is_mx(*kept))
        add(any_blocks(format, outputs, inputs, int8_rows), int8_rows);
  }
  std::vector<const Weight*> weights;
  for (const auto& weight : packed)
    weights.push_back(weight.get());
  auto in = normal_floats(std::size_t(rows) * std::size_t(inputs));
  const auto out = allocate_host(std::size_t(rows) * std::size_t(outputs) * sizeof(float)).value();
  Scratch staged, scratch;
  const auto times = in_turn(weights, seconds, [&](const Weight& any) {
    const auto& weight = dynamic_cast<const PackedWeight&>(any);
    k.stage(staged.at_least(k.staged_bytes(rows, weight)), tensor(in, rows), weight, 0, rows);
    k.linear(out->tensor(rows, outputs), staged.at_least(0), weight, {0, weight.tiles()}, false,
             scratch);
  });
  fmt::print("{}: product of {} rows, {} inputs, {} outputs\n", k.name(), rows, inputs, outputs);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double middle = quantile(times[i], 0.5);
    const char* const rows_too = weights[i]->rounds_to_int8() ? "int8 rows" : "";
    fmt::print(
        "  {:<10} {:<9} {:>7.2f} ms, {:>5.1f} GB/s, {:.2f} of bf16's speed; least {:.2f} ms, "
        "{:.2f}\n",
        to_string(weights[i]->format()), rows_too, middle * 1e3,
        double(weights[i]->bytes()) / middle * 1e-9, quantile(times[0], 0.5) / middle,
        times[i].front() * 1e3, times[0].front() / times[i].front());
  }
}

/// The last `rows` of `context` positions, heads that share keys.
void attention(const std::vector<const Kernels*>& families, double seconds, int rows, int context,
               int heads, int dim, KvType type = KvType::bf16) {
  const auto device =
      open_device("cpu", {1, std::make_shared<apps::SteadyTime>(), nullptr}).value();
  const std::size_t half = kv_bytes(type, dim);
  const int pages = (context + page_tokens - 1) / page_tokens;
  const auto pool = KvPool::create(*device, {page_tokens, 2 * half}, std::size_t(pages)).value();
  std::vector<PageRef> held;
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < pages; ++i)
    ids.push_back(held.emplace_back(pool->take())->id);
  const KvHead kv{pool.get(), ids, 0, page_tokens * half, page_tokens, dim, type};
  for (int position = 0; position < context; ++position) {
    store_key(kv, position, normal_floats(std::size_t(dim)).data());
    store_value(kv, position, normal_floats(std::size_t(dim)).data());
  }
  auto q = normal_floats(std::size_t(rows) * std::size_t(heads * dim));
  auto out = q;
  std::vector<std::int32_t> positions(std::size_t(rows), 0);
  std::iota(positions.begin(), positions.end(), context - rows);
  const AttentionOptions options{1 / std::sqrt(float(dim)), 0, 0};
  Scratch scratch;
  const auto times = in_turn(families, seconds, [&](const Kernels& k) {
    k.attend(tensor(out, rows), tensor(q, rows), positions, options, kv, scratch);
  });
  print(fmt::format("attention of {} rows, {} heads of {}, context {}, cache of {}", rows, heads,
                    dim, context, to_string(type)),
        families, times, 2.0 * heads * dim * rows * (context - (rows - 1) / 2.0));
}

/// A row through the states of all layers, which together are larger than a core's caches.
void states(const std::vector<const Kernels*>& families, double seconds, int layers, int heads,
            int dim) {
  const std::size_t one = std::size_t(dim) * std::size_t(dim);
  auto all = normal_floats(std::size_t(layers * heads) * one);
  const auto key = normal_floats(std::size_t(dim));
  auto value = key;
  auto out = key;
  const auto times = in_turn(families, seconds, [&](const Kernels& k) {
    for (std::size_t at = 0; at < all.size(); at += one) {
      k.advance_delta(all.data() + at, key.data(), dim, value.data(), dim, 0.9f, 0.01f);
      k.read_state(out.data(), dim, all.data() + at, key.data(), dim);
    }
  });
  print(fmt::format("states of {} layers, {} heads of {}", layers, heads, dim), families, times, 0);
}

} // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  auto families = available_kernels();
  families.pop_back(); // The oracle.
  peaks(families);
  const bool products_too = argc < 3;
  for (const int rows : {1, 2, 4, 8, 16, 64, 512})
    if (products_too)
      formats(**choose_kernels(), seconds, rows, 2048); // or PACELINE_CPU
  for (const int inputs : {1536, 4096})
    for (const int rows : {1, 16, 64, 512})
      if (products_too)
        products(families, seconds, rows, inputs);
  attention(families, seconds, 1, 64, 3, 32);
  for (const int rows : {1, 4, 8})
    for (const int context : {256, 1024})
      attention(families, seconds, rows, context, 6, 64);
  for (const int context : {8192, 32768})
    for (const KvType type : {KvType::bf16, KvType::int8})
      attention(families, seconds, 1, context, 4, 128, type);
  for (const int context : {512, 8192}) {
    attention(families, seconds, 512, context, 3, 64);
    attention(families, seconds, 512, context, 4, 128);
  }
  states(families, seconds, 18, 16, 128); // of Qwen 3.5 0.8B
}
