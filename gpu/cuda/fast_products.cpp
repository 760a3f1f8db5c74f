#include "gpu/cuda/fast_products.hpp"

#include "base/bf16.hpp"
#include "base/expect.hpp"
#include "gpu/cuda/cublas.hpp"
#include "gpu/cuda/weight.hpp"
#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <fmt/format.h>
#include <stdexcept>
#include <vector>

namespace paceline::gpu::cuda {
namespace {

/// How many of cuBLASLt's best estimates are tried before a shape is given up.
constexpr int candidates = 16;
/// The rows that they are asked for, whatever engines read at once: these have the same bits then.
constexpr int candidate_rows = 2048;

/// The properties that an algorithm is chosen for: those of a weight, and of what it makes.
struct Shape {
  int outputs;
  int inputs;
  bool biased;
  int stride; ///< Of the rows of the result.
  bool aligned;

  static Shape of(const kernels::PackedWeight& w, const Tensor& out) {
    return {w.layout.outputs, w.layout.inputs, w.bias != nullptr, out.stride,
            rows_are_aligned(out)};
  }
  bool operator==(const Shape&) const = default;
};

/// The place of a weight's outputs in those of the whole that it is a part of.
struct Columns {
  int first;
  int all;
};

/// Fills plain matrices of bf16 without any structure, so that sums in another order differ.
void fill_randomly(std::span<std::byte> bytes, std::uint32_t seed) {
  auto* values = reinterpret_cast<base::bf16*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / sizeof(base::bf16); ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = base::to_bf16(float(std::int32_t(seed)) * 0x1p-31f);
  }
}

std::shared_ptr<Buffer> random_matrix(Context& context, std::size_t bytes, std::uint32_t seed) {
  auto buffer = base::value_or_throw(context.allocate(bytes));
  const auto fill = [seed](std::size_t first, std::span<std::byte> piece) {
    fill_randomly(piece, seed + std::uint32_t(first));
  };
  if (const auto done = context.upload(*buffer, sizeof(base::bf16), fill); !done)
    throw std::runtime_error(done.error().text());
  return buffer;
}

/// A test whether an algorithm gives each row the same bits in a product of one chunk as in every
/// larger product, wherever its chunk is there.
class Trial {
public:
  Trial(Context& context, const CublasHandle& cublas, const kernels::PackedWeight& w,
        Columns columns, int rows)
      : context_(context), cublas_(cublas), columns_(columns), rows_(rows), stream_(make_stream()),
        weight_(random_matrix(context, kernels::plain_bytes(w.layout), 1)),
        in_(random_matrix(context, row_bytes(w) * std::size_t(rows), 2)), alone_(results()),
        together_(results()), differ_(base::value_or_throw(context.allocate(sizeof(std::int32_t)))),
        w_(w) {}

  ~Trial() { (void)cudaStreamSynchronize(stream_.get()); } // Its memory is freed afterwards.
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Shape shape() const { return Shape::of(w_, product_of(1).out); }
  /// Returns what a product of so many rows looks like; its data may be those of fewer.
  Gemm product_of(int rows) const {
    Gemm gemm = product(*together_, 0, 1, false);
    gemm.out.rows = rows;
    return gemm;
  }

  bool passes(const CublasHandle::Algorithm& algorithm) {
    PACELINE_CUDA_CHECK(cudaMemsetAsync(flag(), 0, sizeof(std::int32_t), stream_.get()));
    for (int first = 0; first < rows_; first += fast_chunk)
      if (!run(algorithm, *alone_, first, fast_chunk))
        return false;
    for (int count = fast_chunk; count <= rows_; count += fast_chunk) {
      if (!run(algorithm, *together_, 0, count))
        return false;
      PACELINE_CUDA_CHECK(kernels::compare(stream_.get(), flag(), rows_of(*alone_, 0, count),
                                           rows_of(*together_, 0, count)));
    }
    return same();
  }

private:
  static std::size_t row_bytes(const kernels::PackedWeight& w) {
    return std::size_t(w.layout.padded_inputs()) * sizeof(base::bf16);
  }
  std::shared_ptr<Buffer> results() const {
    return base::value_or_throw(
        context_.allocate(std::size_t(rows_) * std::size_t(columns_.all) * sizeof(float)));
  }
  Tensor rows_of(Buffer& out, int first, int count) const {
    return out.tensor(rows_, columns_.all)
        .columns(columns_.first, w_.layout.outputs)
        .slice(first, count);
  }
  Gemm product(Buffer& out, int first, int count, bool add) const {
    return {weight_->data(),
            in_->data() + row_bytes(w_) * std::size_t(first),
            rows_of(out, first, count),
            w_.layout.outputs,
            w_.layout.padded_inputs(),
            w_.bias,
            add};
  }
  std::int32_t* flag() const { return reinterpret_cast<std::int32_t*>(differ_->data()); }

  /// Stores the product, and then adds it once more.
  bool run(const CublasHandle::Algorithm& algorithm, Buffer& out, int first, int count) {
    return cublas_.run(stream_.get(), product(out, first, count, false), algorithm) &&
           cublas_.run(stream_.get(), product(out, first, count, true), algorithm);
  }

  bool same() {
    std::int32_t differ = 0;
    PACELINE_CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
    PACELINE_CUDA_CHECK(cudaMemcpy(&differ, flag(), sizeof differ, cudaMemcpyDeviceToHost));
    return differ == 0;
  }

  Context& context_;
  const CublasHandle& cublas_;
  Columns columns_;
  int rows_;
  Stream stream_;
  std::shared_ptr<Buffer> weight_, in_, alone_, together_, differ_;
  kernels::PackedWeight w_;
};

class CublasProducts final : public FastProducts {
public:
  CublasProducts(const Cublas& library, int rows) : cublas_(library), rows_(rows) {}

  /// Chooses an algorithm; returns false if none passes.
  bool add(Context& context, const kernels::PackedWeight& w, Columns columns) {
    Tensor out{nullptr, 1, columns.all, columns.all}; // Where all rows begin aligned, if any can.
    if (choice_of(Shape::of(w, out.columns(columns.first, w.layout.outputs))))
      return true;
    Trial trial(context, cublas_, w, columns, rows_);
    // An algorithm for many rows may not support few.
    for (const int rows : {candidate_rows, fast_chunk})
      for (const auto& algorithm :
           cublas_.algorithms(trial.product_of(rows), {candidates, 0, true}))
        if (trial.passes(algorithm)) {
          choose(w, trial.shape(), algorithm);
          return true;
        }
    return false;
  }

  std::size_t scratch_bytes() const override {
    return weight_bytes_ + std::size_t(rows_) * std::size_t(inputs_) * sizeof(base::bf16);
  }

  void multiply(cudaStream_t stream, Tensor out, Tensor in, const kernels::PackedWeight& w,
                bool add, std::byte* scratch) const override {
    const Choice* const choice = choice_of(Shape::of(w, out));
    assert(in.rows <= rows_ && in.rows % fast_chunk == 0);
    if (!choice)
      throw std::logic_error("a product that was not prepared");
    std::byte* rows = scratch + weight_bytes_;
    PACELINE_CUDA_CHECK(kernels::unpack(stream, scratch, w));
    PACELINE_CUDA_CHECK(kernels::round_rows(stream, rows, in));
    const Gemm gemm{scratch, rows, out, w.layout.outputs, w.layout.padded_inputs(), w.bias, add};
    if (!cublas_.run(stream, gemm, choice->algorithm))
      throw std::runtime_error("cuBLASLt refuses a product that it took before");
  }

private:
  struct Choice {
    Shape shape;
    CublasHandle::Algorithm algorithm;
  };

  const Choice* choice_of(const Shape& shape) const {
    const auto choice = std::ranges::find(chosen_, shape, &Choice::shape);
    return choice == chosen_.end() ? nullptr : &*choice;
  }

  void choose(const kernels::PackedWeight& w, const Shape& shape,
              const CublasHandle::Algorithm& algorithm) {
    chosen_.push_back({shape, algorithm});
    weight_bytes_ = std::max(weight_bytes_, kernels::plain_bytes(w.layout));
    inputs_ = std::max(inputs_, w.layout.padded_inputs());
  }

  CublasHandle cublas_;
  int rows_;
  std::vector<Choice> chosen_;
  std::size_t weight_bytes_ = 0; ///< Bytes of the largest weight; a multiple of 512.
  int inputs_ = 0;               ///< Inputs of the widest rows.
};

} // namespace

Result<FastProductsRef>
prepare_fast_products(const std::shared_ptr<Context>& context,
                      std::span<const std::shared_ptr<const Weight>> weights, int rows) {
  assert(rows >= fast_chunk);
  const auto library = Cublas::load();
  if (!library)
    return tl::unexpected(library.error());
  try {
    const CurrentDevice current(context->index());
    auto products = std::make_shared<CublasProducts>(*library, rows / fast_chunk * fast_chunk);
    for (const auto& weight : weights) {
      if (weight->format() < WeightFormat::bf16)
        return fail(ErrorCode::unsupported,
                    fmt::format("the fast path for prompts multiplies by bf16, not {}",
                                to_string(weight->format())),
                    "give EngineOptions::dtype = bf16, or leave EngineOptions::prefill out");
      bool added = true;
      for_each_part(*weight, [&](const Weight& part, int first) {
        added = added && products->add(*context, static_cast<const DeviceWeight&>(part).packed(),
                                       {first, weight->outputs()});
      });
      if (!added)
        return fail(ErrorCode::unsupported,
                    fmt::format("on {} cuBLASLt's products of {} inputs and {} outputs do not "
                                "repeat where their number of rows differs",
                                context->name(), weight->inputs(), weight->outputs()),
                    "leave EngineOptions::prefill out, or try another version of cuBLASLt");
    }
    return products;
  } catch (const std::exception& e) {
    context->examine();
    return fail(
        ErrorCode::unavailable,
        fmt::format("{} cannot ready the fast path for prompts: {}", context->name(), e.what()),
        "leave EngineOptions::prefill out");
  }
}

Result<Version> cublas_version() {
  return Cublas::load().map([](const Cublas& library) {
    const int number = int(library.get_version());
    return Version{number / 10000, number / 100 % 100};
  });
}

} // namespace paceline::gpu::cuda
