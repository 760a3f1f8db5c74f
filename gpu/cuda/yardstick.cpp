#include "gpu/cuda/yardstick.hpp"

#include "base/expect.hpp"
#include "gpu/cuda/cublas.hpp"
#include "gpu/cuda/weight.hpp"
#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>

namespace paceline::gpu::cuda {
namespace {

constexpr int repetitions = 5; ///< Repetitions of each measurement.
constexpr int launches = 20;   ///< Products per repetition.
/// Bytes of copies of a weight, of which each product reads another: more than caches of GPUs hold.
constexpr std::size_t cache_bytes = std::size_t(200) << 20;
constexpr std::size_t workspace_bytes = std::size_t(32) << 20;

Event timing_event() {
  cudaEvent_t event = nullptr;
  PACELINE_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

/// A weight, and memory for products with it of up to rows_most rows.
class Bench {
public:
  Bench(Context& context, const CublasHandle& cublas, const kernels::PackedWeight& w, int rows_most)
      : cublas_(cublas), w_(w), stream_(make_stream()),
        copies_(int(std::min(cache_bytes / w.layout.bytes() + 1, std::size_t(launches)))),
        packed_(allocate(context, w.layout.bytes() * std::size_t(copies_))),
        plain_weight_(allocate(context, kernels::plain_bytes(w.layout) * std::size_t(copies_))),
        in_(random_rows(context, rows_most, w.layout.inputs)),
        staged_(allocate(context, kernels::staged_bytes(rows_most, w.layout.inputs))),
        plain_(allocate(context, std::size_t(rows_most) * std::size_t(w.layout.padded_inputs()) *
                                     sizeof(float))),
        out_(allocate(context,
                      std::size_t(rows_most) * std::size_t(w.layout.outputs) * sizeof(float))),
        workspace_(allocate(context, workspace_bytes)) {
    for (int copy = 0; copy < copies_; ++copy) {
      PACELINE_CUDA_CHECK(cudaMemcpyAsync(const_cast<std::byte*>(packed(copy).data), w.data,
                                          w.layout.bytes(), cudaMemcpyDeviceToDevice,
                                          stream_.get()));
      PACELINE_CUDA_CHECK(kernels::unpack(stream_.get(), plain(copy), w));
    }
  }

  ~Bench() { (void)cudaStreamSynchronize(stream_.get()); } // Its memory is freed afterwards.
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  ProductTimes measure(int rows) const {
    const kernels::PackedLayout& layout = w_.layout;
    const Tensor in = in_->tensor(rows, layout.inputs);
    const Tensor out = out_->tensor(rows, layout.outputs);
    const kernels::StagedRows staged{reinterpret_cast<std::uint16_t*>(staged_->data())};
    PACELINE_CUDA_CHECK(kernels::stage(stream_.get(), staged, in));
    PACELINE_CUDA_CHECK(kernels::round_rows(stream_.get(), plain_->data(), in));
    const auto gemm = [&](int copy) {
      return Gemm{plain(copy), plain_->data(), out, layout.outputs, layout.padded_inputs(),
                  w_.bias,     false};
    };
    const auto best = cublas_.algorithms(gemm(0), {1, workspace_bytes, false});
    if (best.empty())
      throw std::runtime_error("cuBLASLt has no algorithm for a product");
    return {rows, layout.outputs, layout.inputs, seconds_of([&](int copy) {
              PACELINE_CUDA_CHECK(
                  kernels::linear(stream_.get(), out, in, staged, packed(copy), false));
            }),
            seconds_of([&](int copy) {
              if (!cublas_.run(stream_.get(), gemm(copy), best.front(), workspace_->data(),
                               workspace_bytes))
                throw std::runtime_error("cuBLASLt refuses its own algorithm");
            })};
  }

private:
  static std::shared_ptr<Buffer> allocate(Context& context, std::size_t bytes) {
    return base::value_or_throw(context.allocate(bytes));
  }
  static std::shared_ptr<Buffer> random_rows(Context& context, int rows, int cols) {
    std::vector<float> values(std::size_t(rows) * std::size_t(cols));
    std::uint32_t state = 1;
    for (float& value : values) {
      state = state * 1664525u + 1013904223u;
      value = float(std::int32_t(state)) * 0x1p-31f;
    }
    return base::value_or_throw(upload(context, values));
  }

  kernels::PackedWeight packed(int copy) const {
    return {w_.layout, packed_->data() + std::size_t(copy) * w_.layout.bytes(), w_.bias};
  }
  std::byte* plain(int copy) const {
    return plain_weight_->data() + std::size_t(copy) * kernels::plain_bytes(w_.layout);
  }

  /// Returns the median seconds of a product. launch: takes the number of a copy of the weight.
  double seconds_of(const std::function<void(int)>& launch) const {
    const Event begin = timing_event();
    const Event end = timing_event();
    std::array<float, repetitions> milliseconds{};
    launch(0); // Warms up what the first launch loads.
    for (float& took : milliseconds) {
      PACELINE_CUDA_CHECK(cudaEventRecord(begin.get(), stream_.get()));
      for (int i = 0; i < launches; ++i)
        launch(i % copies_);
      PACELINE_CUDA_CHECK(cudaEventRecord(end.get(), stream_.get()));
      PACELINE_CUDA_CHECK(cudaEventSynchronize(end.get()));
      PACELINE_CUDA_CHECK(cudaEventElapsedTime(&took, begin.get(), end.get()));
    }
    std::nth_element(milliseconds.begin(), milliseconds.begin() + repetitions / 2,
                     milliseconds.end());
    return 1e-3 * double(milliseconds[repetitions / 2]) / launches;
  }

  const CublasHandle& cublas_;
  const kernels::PackedWeight w_;
  const Stream stream_;
  const int copies_;
  const std::shared_ptr<Buffer> packed_, plain_weight_, in_, staged_, plain_, out_, workspace_;
};

} // namespace

Result<std::vector<ProductTimes>>
time_products(const std::string& device, std::span<const std::shared_ptr<const Weight>> weights,
              std::span<const int> rows) {
  const auto library = Cublas::load();
  if (!library)
    return tl::unexpected(library.error());
  const auto context =
      parse_device(device).and_then([](const DeviceName& name) { return Context::of(name.index); });
  if (!context)
    return tl::unexpected(context.error());
  try {
    const CurrentDevice current((*context)->index());
    const CublasHandle cublas(*library);
    std::vector<ProductTimes> times;
    std::set<std::pair<int, int>> shapes;
    for (const auto& weight : weights) {
      for_each_part(*weight, [&](const Weight& part, int) {
        const auto& packed = static_cast<const DeviceWeight&>(part).packed();
        if (!packed.layout.rounds_rows() || !shapes.emplace(part.outputs(), part.inputs()).second)
          return;
        const Bench bench(**context, cublas, packed, *std::max_element(rows.begin(), rows.end()));
        std::transform(rows.begin(), rows.end(), std::back_inserter(times),
                       [&](int count) { return bench.measure(count); });
      });
    }
    return times;
  } catch (const std::exception& e) {
    (*context)->examine();
    return fail(ErrorCode::unavailable,
                fmt::format("products on {} were not measured: {}", device, e.what()));
  }
}

} // namespace paceline::gpu::cuda
