// A product with gates and ups, and what the gates make of them, in one operation.
#include "tests/gpu/gguf_weight.hpp"
#include "tests/gpu/rig.hpp"

#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// Gates and ups one below the other, and what comes behind the gates.
struct FeedForward {
  FeedForward(const Rig& rig, WeightFormat format, int ffn, int hidden, Random& random)
      : biases(random.floats(2 * std::size_t(ffn))) {
    const auto pack = [&](HostMatrix matrix, const float* bias = nullptr) {
      matrix.bias = bias;
      return rig.device->pack({&matrix, 1}).value();
    };
    gate_up = has_scaled_codes(format)
                  ? pack(BlockWeight(gguf_format_of(format), 2 * ffn, hidden, random).matrix,
                         biases.data())
                  : pack(HostWeight(format, 2 * ffn, hidden, random).matrix, biases.data());
    down = pack(HostWeight(DType::bf16, hidden, ffn, random).matrix);
  }

  std::vector<float> biases;
  std::shared_ptr<const Weight> gate_up;
  std::shared_ptr<const Weight> down;
};

struct FeedShape {
  int ffn;
  int hidden;
};

} // namespace

TEST_CASE("a product that is gated on the way has the bits of a product and a gate") {
  Random random(77);
  const Gating clamped{Activation::clamped_silu, 1.702f, 2.5f};
  // Parts of the inputs are 4, 8 and 16; gates and ups share a tile of outputs.
  for (const FeedShape& shape : {FeedShape{64, 256}, {64, 1280}, {64, 2304}, {40, 96}})
    for (const WeightFormat format :
         {WeightFormat::f32, WeightFormat::bf16, WeightFormat::mxfp4, WeightFormat::q4_k})
      for (const std::string& name : backends()) {
        if (has_scaled_codes(format) && shape.hidden % 256 != 0)
          continue; // Blocks of 256 are whole.
        CAPTURE(name);
        CAPTURE(shape.hidden);
        CAPTURE(std::string(to_string(format)));
        const Rig rig(name, 2);
        const FeedForward layer(rig, format, shape.ffn, shape.hidden, random);
        for (const int rows : {3, 8, 9})
          for (const Gating& gating : {Gating{Activation::gelu_tanh}, clamped}) {
            CAPTURE(rows);
            Matrix in(rows, shape.hidden, random);
            Matrix made(rows, 2 * shape.ffn), gated(rows, shape.ffn), out(rows, shape.hidden);
            Matrix expected_gated(rows, shape.ffn), expected_out(rows, shape.hidden);
            rig.run([&](Operations& ops) {
              ops.linear(made.tensor(), in.tensor(), *layer.gate_up);
              ops.gate(expected_gated.tensor(), made.tensor(), gating);
              ops.linear(expected_out.tensor(), expected_gated.tensor(), *layer.down);
            });
            rig.run([&](Operations& ops) {
              for (int pass = 0; pass < 2; ++pass) { // The second one's rows lie elsewhere.
                ops.linear_gate(gated.tensor(), made.tensor(), in.tensor(), *layer.gate_up, gating);
                ops.linear(out.tensor(), gated.tensor(), *layer.down);
              }
            });
            CHECK(gated == expected_gated);
            CHECK(out == expected_out);
          }
      }
}
