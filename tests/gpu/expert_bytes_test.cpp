// What a step reads of a mixture: the experts that rows are routed to, each once, and hardly more.
#include "gpu/cpu/forwarding_kernels.hpp"
#include "gpu/cpu/operations.hpp"
#include "tests/gpu/gguf_weight.hpp"
#include "tests/gpu/rig.hpp"

#include <atomic>
#include <set>
#include <thread>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr int experts = 32;
constexpr int top_k = 4;
constexpr int hidden = 256;
constexpr int width = 96; ///< Of an expert.

/// The scalar kernels, which count the bytes of the tiles that they multiply by. A call reads a
/// tile from memory once: its blocks of rows follow one another.
class CountingKernels final : public cpu::ForwardingKernels {
public:
  CountingKernels() : ForwardingKernels(cpu::scalar_kernels()) {}
  const char* name() const override { return "counting"; }
  void linear(Tensor out, const std::byte* staged, const cpu::PackedWeight& w, cpu::TileRun run,
              bool add, cpu::Scratch& scratch) const override {
    bytes += std::size_t(run.last - run.first) * w.tile_bytes();
    ForwardingKernels::linear(out, staged, w, run, add, scratch);
  }

  mutable std::atomic<std::size_t> bytes = 0;
};

/// Returns the matrices of all experts as one weight.
template <class One>
std::shared_ptr<const Weight> pack_all(const std::vector<std::unique_ptr<One>>& each) {
  std::vector<HostMatrix> parts;
  for (const auto& one : each)
    parts.push_back(one->matrix);
  return cpu::PackedWeight::pack(parts).value();
}

/// Calls `program` on every rank of a team.
void run_on_team(const cpu::Kernels& kernels, const auto& program) {
  constexpr int ranks = 3;
  cpu::TeamState team(kernels, ranks);
  team.restart();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      cpu::CpuOperations operations(team, rank);
      operations.begin();
      program(operations);
    });
}

/// Counts what both products of a mixture read. make(outputs, inputs): a matrix of an expert; it
/// has `bits` for each number.
void check_bytes(int rows, double bits, Random& random, const auto& make) {
  CAPTURE(rows);
  std::vector<decltype(make(0, 0))> up;
  std::vector<decltype(make(0, 0))> down;
  for (int e = 0; e < experts; ++e) {
    up.push_back(make(2 * width, hidden));
    down.push_back(make(hidden, width));
  }
  const auto all_up = pack_all(up);
  const auto all_down = pack_all(down);
  CountingKernels kernels;
  std::vector<std::byte> memory(Routing::bytes(rows, experts, top_k));
  const Routing routing = Routing::in(memory.data(), rows, experts, top_k);
  Matrix scores(rows, experts, random);
  Matrix in(rows, hidden, random);
  Matrix wide(routing.picks(), 2 * width);
  Matrix narrow(routing.picks(), width, random);
  Matrix out(routing.picks(), hidden);
  run_on_team(kernels, [&](Operations& ops) {
    ops.route(routing, scores.tensor(), nullptr, {});
    ops.expert_linear(wide.tensor(), in.tensor(), RoutedRows::by_row, *all_up, routing);
    ops.expert_linear(out.tensor(), narrow.tensor(), RoutedRows::by_slot, *all_down, routing);
  });
  const std::set<int> chosen(routing.chosen, routing.chosen + routing.picks());
  const double had = double(chosen.size()) * 3 * hidden * width * bits / 8;
  CHECK(double(kernels.bytes) >= had);
  CHECK(double(kernels.bytes) <= 1.15 * had);
}

} // namespace

TEST_CASE("a step reads the experts that have rows, each once for all of them") {
  Random random(1);
  for (const WeightFormat format :
       {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16, WeightFormat::mxfp8,
        WeightFormat::mxfp6, WeightFormat::mxint8, WeightFormat::mxfp4})
    for (const int rows : {1, 7, 40}) {
      CAPTURE(std::string(to_string(format)));
      const double bits = is_mx(format)                 ? element_bits(format) + 8.0 / mx_block
                          : format == WeightFormat::f32 ? 32
                                                        : 16;
      check_bytes(rows, bits, random, [&](int outputs, int inputs) {
        return std::make_unique<HostWeight>(format, outputs, inputs, random);
      });
    }
}

TEST_CASE("of experts in a file's blocks a step reads hardly more bytes than the file has") {
  Random random(2);
  using enum GgufFormat;
  for (const GgufFormat format : {q8_0, q4_0, q5_1, iq4_nl, mxfp4})
    for (const int rows : {1, 40}) {
      CAPTURE(std::string(to_string(format)));
      const double bits = 8.0 * double(block_bytes(format)) / block_elements(format);
      check_bytes(rows, bits, random, [&](int outputs, int inputs) {
        return std::make_unique<BlockWeight>(format, outputs, inputs, random);
      });
    }
}
