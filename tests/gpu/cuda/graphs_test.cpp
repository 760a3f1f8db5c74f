// Pieces that come again are launched as graphs: which ones, and with the bits of single launches.
#include "gpu/cuda/context.hpp"
#include "gpu/limits.hpp"
#include "tests/gpu/cuda/demo_pair.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/rig.hpp"
#include "tests/models/support.hpp"

#include <array>
#include <functional>
#include <tuple>
#include <utility>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// What was asked of the emulated GPUs since this was made.
class Asked {
public:
  std::size_t launches() const { return cuda_emulation::launches() - launches_; }
  std::size_t graphs() const { return cuda_emulation::graph_launches() - graphs_; }
  std::size_t made() const { return cuda_emulation::graphs_made() - made_; }
  std::size_t allocations() const { return cuda_emulation::allocations() - allocations_; }

private:
  std::size_t launches_ = cuda_emulation::launches();
  std::size_t graphs_ = cuda_emulation::graph_launches();
  std::size_t made_ = cuda_emulation::graphs_made();
  std::size_t allocations_ = cuda_emulation::allocations();
};

using Body = std::function<void(Operations&)>;

/// Rounds of two sequences, which grow: decoding one row each, or verifying four.
class Rounds {
public:
  Rounds()
      : runner_(
            models::test::load(models::test::demo("draft"), models::test::device("cuda:0"),
                               {.dtype = NumberFormat::bf16, .progress = {}, .max_positions = 256})
                .value(),
            16, 32, 128, 16) {
    for (auto& pages : pages_)
      pages = runner_.take_pages(tokens_most);
    run({40, 58}, 0);
  }

  /// The logits of the next rows of each sequence.
  std::vector<std::vector<float>> next(int rows) { return run({rows, rows}, rows); }

private:
  static constexpr int tokens_most = 100;

  std::vector<std::vector<float>> run(std::array<int, 2> rows, int wanted) {
    std::vector<models::SequenceRows> batch;
    std::array<std::vector<TokenId>, 2> tokens;
    for (std::size_t s = 0; s < 2; ++s) {
      for (int i = 0; i < rows[s]; ++i)
        tokens[s].push_back(TokenId((lengths_[s] + i) * 37 % 250 + 10 + int(s)));
      batch.push_back({pages_[s], lengths_[s], tokens[s], rows[s] - wanted});
      lengths_[s] += rows[s];
    }
    return runner_.run(batch);
  }

  models::test::Runner runner_;
  std::array<std::vector<std::uint32_t>, 2> pages_;
  std::array<int, 2> lengths_{};
};

/// said: gets what the GPU says of that.
std::vector<std::vector<std::vector<float>>> all_rounds(bool graphs,
                                                        std::vector<std::string>& said) {
  cuda_emulation::reset({.graphs = graphs});
  Rounds rounds;
  cuda::Context::of(0).value()->log_to(
      base::Log([&](LogLevel, const std::string& message) { said.push_back(message); }));
  std::vector<std::vector<std::vector<float>>> logits;
  for (const int rows : {1, 1, 1, 4, 4, 1, 4, 1, 1, 1}) // Past position 64 on the way.
    logits.push_back(rounds.next(rows));
  return logits;
}

} // namespace

TEST_CASE("a round that comes again is one graph, and nothing else") {
  const Gpus gpus(1);
  Rounds rounds;
  for (const int rows : {1, 1, 1, 1, 1, 1, 4, 4, 1, 1}) // Past position 64, where four rows want
    rounds.next(rows);                                  // the largest workspace; then each twice.
  const Asked asked;
  for (const int rows : {1, 4, 1, 4, 1})
    rounds.next(rows);
  CHECK(asked.graphs() == 5);
  CHECK(asked.launches() == 0);
  CHECK(asked.made() == 0);
  CHECK(asked.allocations() == 0);
}

TEST_CASE("what gates make of few rows is one launch with their product") {
  Random random(5);
  const Rig rig("cuda:0", 1);
  const HostWeight host(DType::bf16, 64, 48, random);
  const auto weight = rig.device->pack({&host.matrix, 1}).value();
  for (const int rows : {8, 9}) {
    Matrix in(rows, 48, random), made(rows, 64), out(rows, 32);
    const Asked asked;
    rig.run([&](Operations& ops) {
      ops.linear_gate(out.tensor(), made.tensor(), in.tensor(), *weight, Gating{});
    });
    CHECK(asked.launches() == (rows == 8 ? 2 : 3)); // One stages the rows.
  }
}

TEST_CASE("graphs give the bits of single launches, whatever grows from round to round") {
  const Gpus gpus(1);
  const Asked asked;
  const auto context = cuda::Context::of(0).value(); // Held, so that it counts both times.
  std::vector<std::string> said;
  const auto expected = all_rounds(false, said);
  CHECK(asked.graphs() == 0); // Where none can be had there are none, and all goes on.
  CHECK(context->graphs().failed > 1);
  REQUIRE(said.size() == 1);
  CHECK(said.front().starts_with("cuda:0: a CUDA graph cannot be made"));
  const std::size_t failed = context->graphs().failed;
  const auto logits = all_rounds(true, said);
  CHECK(asked.graphs() > 3);
  CHECK(asked.graphs() == context->graphs().launched);
  CHECK(context->graphs().failed == failed);
  CHECK(said.size() == 1);
  CHECK(logits == expected);
}

namespace {

struct Pair {
  Body first;
  Body second;
};

/// Two pieces in turn, so often that both are graphs: each leaves in `out` what it leaves alone.
void check_told_apart(const Rig& rig, Tensor out, const Pair& pair) {
  const auto result = [&](const Body& body) {
    std::fill_n(out.data, out.rows * out.cols, 0.5f);
    rig.run(body);
    Matrix left(out.rows, out.cols);
    std::copy_n(out.data, left.values.size(), left.values.begin());
    return left;
  };
  const Asked asked;
  const Matrix first = result(pair.first);
  const Matrix second = result(pair.second);
  CHECK(!(first == second));
  for (int i = 0; i < 3; ++i) {
    CHECK(result(pair.first) == first);
    CHECK(result(pair.second) == second);
  }
  CHECK(asked.made() == 2);
  CHECK(asked.graphs() == 6);
}

} // namespace

TEST_CASE("pieces that differ in one thing alone are not taken for each other") {
  const Gpus gpus(1);
  const Rig rig("cuda:0", 1);
  Random random(5);
  Matrix in(8, 64, random, 4);
  Matrix other(8, 64, random, 4);
  Matrix out(8, 32);
  const auto gate = [&](Matrix& from, const Gating& gating, int rows) {
    return [&, gating, rows](Operations& ops) {
      ops.gate(out.tensor().slice(0, rows), from.tensor().slice(0, rows), gating);
    };
  };
  const Body usual = gate(in, Gating{Activation::silu}, 8);
  SUBCASE("in a number") {
    check_told_apart(rig, out.tensor(), {usual, gate(in, Gating{Activation::gelu_tanh}, 8)});
  }
  SUBCASE("in an address") {
    check_told_apart(rig, out.tensor(), {usual, gate(other, Gating{Activation::silu}, 8)});
  }
  SUBCASE("in a view's rows") {
    check_told_apart(rig, out.tensor(), {usual, gate(in, Gating{Activation::silu}, 5)});
  }
  SUBCASE("in a call more") {
    check_told_apart(rig, out.tensor(), {usual, [&](Operations& ops) {
                                           usual(ops);
                                           ops.soft_cap(out.tensor(), 1);
                                         }});
  }
  SUBCASE("in a flag") {
    check_told_apart(rig, out.tensor(),
                     {[&](Operations& ops) {
                        ops.rms_norm(out.tensor(), in.tensor().columns(0, 32), other.values.data(),
                                     1e-5f);
                      },
                      [&](Operations& ops) {
                        ops.rms_norm_add(out.tensor(), in.tensor().columns(0, 32),
                                         other.values.data(), 1e-5f, 1);
                      }});
  }
}

TEST_CASE("pieces that differ in the size of a grid alone are not taken for each other") {
  const Gpus gpus(1);
  const Rig rig("cuda:0", 1);
  const auto pool = KvPool::create(*rig.device, {4, 16}, 8).value();
  std::fill_n(reinterpret_cast<float*>(pool->page(0)), 4 * 16, 1.0f);
  const std::array<PageCopy, 3> pages{{{0, 4}, {1, 5}, {2, 6}}};
  const auto copy = [&](std::size_t count) {
    return [&, count](Operations& ops) { ops.copy_pages(*pool, std::span(pages).first(count)); };
  };
  check_told_apart(rig, {reinterpret_cast<float*>(pool->page(4)), 4, 16, 16}, {copy(2), copy(3)});
}

TEST_CASE("what an operation is told may change from round to round under the same graph") {
  const Gpus gpus(1);
  const Rig rig("cuda:0", 1);
  Random random(7);
  Matrix in(16, 8, random);
  Matrix out(4, 8);
  std::vector<std::int32_t> rows(4);
  const auto check_round = [&](int round) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = (round * 5 + int(i) * 3) % 16;
    rig.run([&](Operations& ops) { ops.gather(out.tensor(), in.tensor(), rows); });
    for (std::size_t i = 0; i < rows.size(); ++i)
      CHECK(out.slice(int(i), 1) == in.slice(rows[i], 1));
  };
  const Asked asked;
  for (int round = 0; round < 6; ++round)
    check_round(round);
  CHECK(asked.graphs() == 5);
}

TEST_CASE("the graphs that a lane keeps are bounded, and pieces that come once push none out") {
  const Gpus gpus(1);
  const Rig rig("cuda:0", 1);
  Matrix x(200, 1);
  const auto piece = [&](int rows) {
    rig.run([&](Operations& ops) { ops.soft_cap(x.tensor().slice(0, rows), 2); });
  };
  const int most = int(limits::cuda_graphs);
  for (int rows = 1; rows <= most; ++rows)
    for (int turn = 0; turn < 2; ++turn)
      piece(rows);
  const Asked asked;
  for (int rows = most + 1; rows <= most + 2 * int(limits::cuda_pieces_seen); ++rows)
    piece(rows);
  CHECK(asked.made() == 0);
  for (int rows = 1; rows <= most; ++rows)
    piece(rows);
  CHECK(asked.made() == 0);
  CHECK(asked.graphs() == limits::cuda_graphs);
  for (int turn = 0; turn < 2; ++turn)
    piece(most + 1); // Takes the place of the first.
  CHECK(asked.made() == 1);
  piece(2);
  CHECK(asked.made() == 1);
  piece(1);
  piece(1);
  CHECK(asked.made() == 2);
}

TEST_CASE("products by cuBLASLt stay outside graphs") {
  const Gpus gpus(1);
  Rig rig("cuda:0", 1);
  Random random(8);
  const HostWeight host(DType::bf16, 32, 64, random);
  const auto weight = rig.device->pack({&host.matrix, 1}).value();
  REQUIRE(rig.device->prepare_fast_products({&weight, 1}, fast_chunk));
  rig.lane = rig.device->open_lane("target").value();
  Matrix in(fast_chunk, 64, random);
  Matrix out(fast_chunk, 32);
  const Asked asked;
  for (int i = 0; i < 4; ++i)
    rig.run([&](Operations& ops) { ops.linear_fast(out.tensor(), in.tensor(), *weight, false); });
  CHECK(asked.launches() > 0); // Of what readies its rows.
  CHECK(asked.made() == 0);
}

TEST_CASE("a GPU lost before a graph is launched fails its step, and the host lives") {
  const Gpus gpus(1);
  const auto device = open_device("cuda:0", {0, std::make_shared<RealTime>(), nullptr}).value();
  const auto lane = device->open_lane("target").value();
  const auto memory = device->allocate(4096).value();
  const auto piece = [&] {
    auto step = std::make_shared<TestStep>(
        [&](Operations& ops) { ops.soft_cap(memory->tensor(32, 32), 1); });
    REQUIRE(lane->submit(step));
    return step->wait();
  };
  for (int i = 0; i < 3; ++i)
    CHECK(piece().completed);
  auto last = std::make_shared<TestStep>([&](Operations& ops) {
    ops.soft_cap(memory->tensor(32, 32), 1);
    cuda_emulation::lose(0);
  });
  REQUIRE(lane->submit(last));
  const Retirement how = last->wait();
  CHECK(!how.completed);
  REQUIRE(how.error);
  CHECK(how.error->message.find("cudaGraphLaunch") != std::string::npos);
  CHECK(!piece().completed);
}

TEST_CASE("an engine's rounds are graphs once it has seen them") {
  const Gpus gpus(1);
  EngineOptions options = paceline::testing::small_on("cuda:0");
  Request request = paceline::testing::requests()[0];
  request.max_tokens = 20;
  struct Answer {
    std::uint64_t graphs, rounds, drafted;
  };
  const auto later_answer = [&](bool drafts) {
    Engine engine = paceline::testing::open_engine(options);
    (void)paceline::testing::ask(engine, request);
    // A draft that was late, as it may be on a busy machine, is left out for a while: such an
    // answer shows nothing.
    for (int attempt = 0; attempt < 50; ++attempt) {
      const Asked asked;
      const auto end = paceline::testing::ask(engine, request).end();
      if (!drafts || end.speculation.drafted > 2 * end.speculation.rounds)
        return Answer{std::uint64_t(asked.graphs()), end.speculation.rounds,
                      end.speculation.drafted};
    }
    FAIL("the draft was late in every answer");
    return Answer{};
  };
  options.speculation = SpeculationMode::off;
  const Answer plain = later_answer(false);
  // A pass and its verification each, but for the prompt's.
  CHECK(plain.graphs >= 2 * (plain.rounds - 1));
  options.speculation = SpeculationMode::sync;
  options.window = 3;
  const Answer speculative = later_answer(true);
  // The draft's, too, one behind another.
  CHECK(speculative.graphs > 2 * (speculative.rounds - 1) + speculative.drafted / 2);
}
