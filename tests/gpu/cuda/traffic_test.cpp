// What the kernels of a decode step cost in sectors and banks beyond the least, and how much shared
// memory their blocks have. The program prints what it counted.
#include "tests/gpu/cuda_emulation/traffic.hpp"

#include "tests/gpu/cuda/figures/model.hpp"
#include "tests/gpu/cuda_emulation/block.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::gpu::cuda;
using cuda_emulation::Access;
using cuda_emulation::Traffic;
using cuda_emulation::TrafficCount;

namespace {

enum class Kind {
  global_load,
  global_store,
  copy_from_global,
  shared_load,
  shared_store,
  copy_to_shared
};
constexpr const char* kind_names[] = {"global loads", "global stores", "copies from global",
                                      "shared loads", "shared stores", "copies to shared"};

/// What a kernel did at each of its places, by kinds.
using Kinds = std::map<Kind, std::vector<Traffic>>;

Kinds kinds_of(const std::vector<Traffic>& all) {
  std::set<const void*> copies;
  for (const Traffic& traffic : all)
    if (traffic.how == Access::copy_begins)
      copies.insert(traffic.place);
  const auto kind_of = [&](const Traffic& traffic) {
    if (copies.contains(traffic.place))
      return traffic.shared ? Kind::copy_to_shared : Kind::copy_from_global;
    const bool load = traffic.how == Access::read;
    if (traffic.shared)
      return load ? Kind::shared_load : Kind::shared_store;
    return load ? Kind::global_load : Kind::global_store;
  };
  Kinds kinds;
  for (const Traffic& traffic : all)
    kinds[kind_of(traffic)].push_back(traffic);
  return kinds;
}

/// What a kernel may have.
struct Bounds {
  std::size_t shared_bytes;
  /// How many times the least an access may touch, where that is more than once.
  std::map<Kind, double> excess;
};

/// Returns the file and the line that a place lies in, as far as the program knows.
std::string line_of(const void* place) {
  std::uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uintptr_t*>(to) = info->dlpi_addr;
        return 1; // The program comes first.
      },
      &base);
  const auto command = fmt::format("addr2line -se /proc/{}/exe {:#x} 2>/dev/null", getpid(),
                                   reinterpret_cast<std::uintptr_t>(place) - base - 1);
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(popen(command.c_str(), "r"), pclose);
  char line[256] = {};
  if (!answer || !std::fgets(line, sizeof line, answer.get()))
    return "?";
  const std::string text = line;
  return text.substr(0, text.find_first_of(" \n"));
}

void print_sum(Kind kind, const std::vector<Traffic>& places) {
  Traffic sum;
  for (const Traffic& traffic : places) {
    sum.touched += traffic.touched;
    sum.least += traffic.least;
    sum.bytes += traffic.bytes;
  }
  fmt::print("  {:<18} {:.2f} of the least, {:.1f} bytes of each {}\n", kind_names[int(kind)],
             sum.excess(), double(sum.bytes) / double(sum.touched),
             kind < Kind::shared_load ? "sector" : "pass");
}

/// Counts what `work` does, prints it, and holds it to its bounds.
void check(const figures::Bench& bench, const std::string& name, const Bounds& bounds,
           const std::function<void(const Queue&)>& work) {
  TrafficCount count;
  cuda_emulation::count_traffic(&count);
  work(bench.stream.get());
  const cudaError_t done = cudaStreamSynchronize(bench.stream.get());
  cuda_emulation::count_traffic(nullptr);
  REQUIRE(done == cudaSuccess);
  fmt::print("{}: {} bytes of shared memory\n", name, count.shared_bytes());
  CAPTURE(name);
  CHECK(count.shared_bytes() <= bounds.shared_bytes);
  const Kinds kinds = kinds_of(count.all());
  CHECK(!kinds.empty());
  for (const auto& [kind, places] : kinds) {
    print_sum(kind, places);
    const double most = bounds.excess.contains(kind) ? bounds.excess.at(kind) : 1;
    for (const Traffic& traffic : places) {
      if (traffic.excess() <= 1)
        continue;
      const std::string line = line_of(traffic.place);
      fmt::print("    {:.2f} of the least, {} times: {}\n", traffic.excess(), traffic.instructions,
                 line);
      CAPTURE(line);
      CHECK(traffic.excess() <= most);
    }
  }
}

/// A part of a model of 8 billion parameters, with fewer heads and columns.
constexpr figures::Shape shape{"8b", 1, 1024, 2048, 8, 2, 128, 256};
constexpr int context = 1024;
/// Shared memory of blocks of which four, three and two have room on a multiprocessor of 9.0.
constexpr std::size_t quarter = 56 << 10, third = 75 << 10, half = 113 << 10;

} // namespace

TEST_CASE("kernels between products touch the sectors and banks that they need, and few more") {
  cuda_emulation::reset({});
  {
    const figures::Bench bench(true);
    figures::Model model(bench, shape, 8, context, {});
    for (const int rows : {1, 8}) {
      const figures::Places places(bench, shape, rows, context);
      const auto named = [&](const char* name) { return fmt::format("{}, {} rows", name, rows); };
      const auto small = [&](const char* name, const Bounds& bounds) {
        check(bench, named(name), bounds,
              [&](const Queue& queue) { model.small(queue, places.rows(), name); });
      };
      // A norm reads and writes the two numbers of a pair one after the other.
      small("norm", {128, {{Kind::global_load, 2}, {Kind::global_store, 2}}});
      // Values lie in the cache as pairs of two positions.
      small("rope", {0, {{Kind::global_store, 2}}});
      small("gate", {0, {}});
      check(bench, named("attention"),
            {quarter,
             // Parts of a query lie head_dim + 2 numbers apart; the second kernel reads two of
             // each, the first one writes them, and results in pairs. Queries are read in pairs.
             {{Kind::global_load, 8},
              {Kind::global_store, 8},
              // Scores lie as the matrix instruction gives them, and are read by twos.
              {Kind::shared_load, 2},
              {Kind::shared_store, 2}}},
            [&](const Queue& queue) { model.attend(queue, places.rows(), 0); });
    }
  }
  cuda_emulation::reset({});
}

TEST_CASE("products touch the sectors and banks that they need, and few more") {
  constexpr int outputs = 64;
  constexpr int inputs = 1024;
  cuda_emulation::reset({});
  {
    const figures::Bench bench(true);
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::q4_k})
      for (const int rows : {1, 8}) {
        const auto layout = kernels::PackedLayout::of(format, outputs, inputs);
        const auto weight = bench.weight(format, layout.bytes());
        const auto in = bench.rows(rows, inputs);
        const auto out = bench.rows(rows, outputs);
        const auto memory = bench.allocate(kernels::staged_bytes(rows, inputs));
        const kernels::StagedRows staged{reinterpret_cast<std::uint16_t*>(memory->data())};
        PACELINE_CUDA_CHECK(kernels::stage(bench.stream.get(), staged, in->tensor(rows, inputs)));
        PACELINE_CUDA_CHECK(cudaStreamSynchronize(bench.stream.get()));
        check(
            bench, fmt::format("{}, {} rows", to_string(format), rows),
            // At its end a block's sums go through shared memory, once. Scales lie by outputs.
            {format == WeightFormat::bf16 ? third : half,
             {{Kind::shared_load, format == WeightFormat::bf16 ? 1 : 4}, {Kind::shared_store, 4}}},
            [&](const Queue& queue) {
              PACELINE_CUDA_CHECK(kernels::linear(queue, out->tensor(rows, outputs),
                                                  in->tensor(rows, inputs), staged,
                                                  {layout, weight->data(), nullptr}, false));
            });
      }
  }
  cuda_emulation::reset({});
}
