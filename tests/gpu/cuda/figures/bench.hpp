// What measuring the CUDA back end stands on: the GPU, shapes of models, memory full of numbers,
// and the time that work takes.
#pragma once

#include "base/bf16.hpp"
#include "base/expect.hpp"
#include "gpu/cuda/context.hpp"
#include "gpu/cuda/lane.hpp"
#include "gpu/mx.hpp"

#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace paceline::gpu::cuda::figures {

inline constexpr int page_tokens = 16;

struct Shape {
  const char* name;
  int layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
  int qkv() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// The GPU, what its memory copies, and numbers for any weight.
class Bench {
public:
  explicit Bench(bool tiny_only)
      : tiny(tiny_only), context(base::value_or_throw(Context::of(0))), current_(0),
        stream(make_stream()), noise_(upload(weights(tiny ? 1 << 12 : 1 << 24))) {}

  std::shared_ptr<Buffer> allocate(std::size_t bytes) const {
    return base::value_or_throw(context->allocate(bytes));
  }

  template <class T>
  std::shared_ptr<Buffer> upload(const std::vector<T>& values) const {
    auto buffer = allocate(values.size() * sizeof(T));
    PACELINE_CUDA_CHECK(cudaMemcpy(buffer->data(), values.data(), values.size() * sizeof(T),
                                   cudaMemcpyHostToDevice));
    return buffer;
  }

  /// Memory for a weight, full of numbers around 0. What is not finite would cost attention time,
  /// so of other formats than bf16 all bytes are such that scales are small.
  std::shared_ptr<Buffer> weight(WeightFormat format, std::size_t bytes) const {
    if (format == WeightFormat::bf16)
      return noise(bytes);
    auto buffer = allocate(bytes);
    PACELINE_CUDA_CHECK(cudaMemset(buffer->data(), is_mx(format) ? 0x75 : 0x15, bytes));
    return buffer;
  }

  /// Memory full of bf16 numbers around 0, as weights are.
  std::shared_ptr<Buffer> noise(std::size_t bytes) const {
    auto buffer = allocate(bytes);
    for (std::size_t first = 0; first < bytes; first += noise_->size())
      PACELINE_CUDA_CHECK(cudaMemcpyAsync(buffer->data() + first, noise_->data(),
                                          std::min(noise_->size(), bytes - first),
                                          cudaMemcpyDeviceToDevice, stream.get()));
    PACELINE_CUDA_CHECK(cudaStreamSynchronize(stream.get()));
    return buffer;
  }

  /// Rows of numbers between -1 and 1.
  std::shared_ptr<Buffer> rows(int count, int cols) const {
    std::vector<float> values(std::size_t(count) * std::size_t(cols));
    std::minstd_rand random(2);
    for (float& value : values)
      value = float(int(random() % 2001) - 1000) * 1e-3f;
    return upload(values);
  }

  const bool tiny;
  const std::shared_ptr<Context> context;
  double bytes_per_second = 0; ///< Read and written by a large copy.

private:
  static std::vector<base::bf16> weights(std::size_t count) {
    std::vector<base::bf16> numbers(count);
    std::minstd_rand random(1);
    for (auto& number : numbers)
      number = base::to_bf16(float(int(random() % 2001) - 1000) * 4e-5f);
    return numbers;
  }

  CurrentDevice current_;

public:
  const Stream stream;

private:
  const std::shared_ptr<Buffer> noise_;
};

/// A graph of what `work` enqueues.
class Captured {
public:
  Captured(cudaStream_t stream, const std::function<void(const Queue&)>& work);
  void launch(cudaStream_t stream) const {
    PACELINE_CUDA_CHECK(cudaGraphLaunch(graph_.get(), stream));
  }

private:
  GraphExec graph_;
};

Event timing_event();
/// Returns the median seconds of what `launch` enqueues.
double seconds_of(cudaStream_t stream, const std::function<void()>& launch);
/// Returns the median seconds of `work` as a graph.
double seconds_of(const Bench& bench, const std::function<void(const Queue&)>& work);

void measure_products(const Bench& bench, std::span<const Shape> shapes);
void measure_attention(const Bench& bench, std::span<const Shape> shapes);
void measure_small(const Bench& bench, std::span<const Shape> shapes);
void measure_steps(const Bench& bench, std::span<const Shape> shapes);
void measure_streams(const Bench& bench, std::span<const Shape> shapes);
void measure_sampling(const Bench& bench);

} // namespace paceline::gpu::cuda::figures
