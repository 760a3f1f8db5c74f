// Products by cuBLASLt, emulated or the real one where it loads.
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/rig.hpp"

#include <cmath>
#include <optional>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// A GPU, a weight, and a lane for fast products with it.
struct Fast {
  Fast(const HostMatrix& matrix, int rows) : rig("cuda:0", 1) {
    weight = rig.device->pack({&matrix, 1}).value();
    const auto done = rig.device->prepare_fast_products({&weight, 1}, rows);
    ready = done.has_value();
    if (!ready && done.error().code == ErrorCode::not_found)
      MESSAGE("skipped: ", done.error().text());
    else
      REQUIRE_MESSAGE(ready, done.error().text());
    rig.lane = rig.device->open_lane("target").value();
  }

  Matrix product(Matrix in, bool add = false) const {
    Matrix out(in.rows, weight->outputs());
    std::fill(out.values.begin(), out.values.end(), 0.5f);
    rig.run([&](Operations& ops) { ops.linear_fast(out.tensor(), in.tensor(), *weight, add); });
    return out;
  }

  Rig rig;
  std::shared_ptr<const Weight> weight;
  bool ready = false;
};

struct Shape {
  int outputs;
  int inputs;
};
// The demo draft's, and sizes that no tile and no alignment divides.
constexpr Shape shapes[] = {{256, 128}, {128, 384}, {100, 50}, {79, 7}};

} // namespace

TEST_CASE("fast products agree with the oracle up to the order of summation") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  const Rig oracle("scalar", 1);
  Random random(21);
  for (const Shape& shape : shapes)
    for (const bool biased : {false, true}) {
      CAPTURE(shape.outputs);
      CAPTURE(shape.inputs);
      CAPTURE(biased);
      HostWeight host(DType::bf16, shape.outputs, shape.inputs, random);
      const auto bias = random.floats(std::size_t(shape.outputs));
      host.matrix.bias = biased ? bias.data() : nullptr;
      const auto weight = oracle.device->pack({&host.matrix, 1}).value();
      const Fast fast(host.matrix, 2 * fast_chunk);
      if (!fast.ready)
        return;
      Matrix in(2 * fast_chunk, shape.inputs, random);
      Matrix scale(in.rows, shape.outputs);
      std::fill(scale.values.begin(), scale.values.end(), float(shape.inputs)); // Sums are below.
      for (const bool add : {false, true}) {
        Matrix expected(in.rows, shape.outputs);
        std::fill(expected.values.begin(), expected.values.end(), 0.5f);
        oracle.run([&](Operations& ops) {
          if (add)
            ops.linear_add(expected.tensor(), in.tensor(), *weight);
          else
            ops.linear(expected.tensor(), in.tensor(), *weight);
        });
        CHECK(worst(fast.product(in, add), expected, scale) < 1e-5);
      }
    }
}

TEST_CASE("a chunk's fast product has the same bits alone and anywhere among others") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  constexpr int chunks = 4;
  Random random(22);
  const HostWeight host(DType::bf16, 256, 128, random);
  const Fast fast(host.matrix, chunks * fast_chunk);
  if (!fast.ready)
    return;
  const Matrix in(chunks * fast_chunk, 128, random);
  for (const bool add : {false, true}) {
    const Matrix whole = fast.product(in, add);
    for (int first = 0; first < chunks; ++first)
      for (int count = 1; first + count <= chunks; ++count) {
        CAPTURE(first);
        CAPTURE(count);
        CHECK(fast.product(in.slice(first * fast_chunk, count * fast_chunk), add) ==
              whole.slice(first * fast_chunk, count * fast_chunk));
      }
  }
}

TEST_CASE("a fast product with microscaling weights is that of the bf16 weight they decode to") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  Random random(27);
  for (const WeightFormat format : mx_formats) {
    CAPTURE(std::string(to_string(format)));
    const HostWeight host(format, 100, 80, random);
    std::vector<std::uint16_t> narrow;
    for (const float value : host.f32.values)
      narrow.push_back(base::to_bf16(value).bits);
    const Fast fast(host.matrix, fast_chunk);
    const Fast plain({DType::bf16, narrow.data(), 100, 80}, fast_chunk);
    if (!fast.ready)
      return;
    const Matrix in(fast_chunk, 80, random);
    CHECK(fast.product(in) == plain.product(in));
  }
}
