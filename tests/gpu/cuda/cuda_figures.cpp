// What the kernels of the CUDA back end cost on cuda:0, beside what its memory can do:
//   cuda_figures [tiny] [PART...]     parts: products attention small sampling steps streams
// Without parts it measures all. `tiny` takes shapes that an emulated GPU manages. No model is
// needed: weights are random numbers, and every product reads others than the one before it, more
// in all than the second-level cache holds. Each figure is the median of replays of a CUDA graph.
#include "base/bf16.hpp"
#include "base/expect.hpp"
#include "gpu/cuda/context.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/lane.hpp"
#include "gpu/mx.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {
namespace {

constexpr int replays = 9;
constexpr std::size_t cache_bytes = std::size_t(200) << 20; ///< More than caches of GPUs hold.
constexpr int page_tokens = 16;

struct Shape {
  const char* name;
  int layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
  int qkv() const { return (heads + 2 * kv_heads) * head_dim; }
};
constexpr std::array full_shapes{Shape{"8b", 32, 4096, 14336, 32, 8, 128, 128256},
                                 Shape{"1b", 16, 2048, 8192, 32, 8, 64, 128256},
                                 Shape{"0.6b", 28, 1024, 3072, 16, 8, 128, 151936}};
constexpr std::array tiny_shapes{Shape{"tiny", 2, 64, 96, 4, 2, 16, 256},
                                 Shape{"less", 1, 32, 64, 2, 1, 16, 256}};

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
  Captured(cudaStream_t stream, const std::function<void(const Queue&)>& work) {
    work(Queue(stream)); // What is launched for the first time is loaded.
    PACELINE_CUDA_CHECK(cudaStreamSynchronize(stream));
    PACELINE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work(Queue(stream));
    cudaGraph_t graph = nullptr;
    PACELINE_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t made = nullptr;
    PACELINE_CUDA_CHECK(cudaGraphInstantiate(&made, graph, 0));
    graph_ = GraphExec(made);
    PACELINE_CUDA_CHECK(cudaGraphDestroy(graph));
  }
  void launch(cudaStream_t stream) const {
    PACELINE_CUDA_CHECK(cudaGraphLaunch(graph_.get(), stream));
  }

private:
  GraphExec graph_;
};

Event timing_event() {
  cudaEvent_t event = nullptr;
  PACELINE_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

/// Median seconds of what `launch` enqueues.
double seconds_of(cudaStream_t stream, const std::function<void()>& launch) {
  const Event begin = timing_event();
  const Event end = timing_event();
  std::array<float, replays> milliseconds{};
  launch();
  for (float& took : milliseconds) {
    PACELINE_CUDA_CHECK(cudaEventRecord(begin.get(), stream));
    launch();
    PACELINE_CUDA_CHECK(cudaEventRecord(end.get(), stream));
    PACELINE_CUDA_CHECK(cudaEventSynchronize(end.get()));
    PACELINE_CUDA_CHECK(cudaEventElapsedTime(&took, begin.get(), end.get()));
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + replays / 2, milliseconds.end());
  return 1e-3 * double(milliseconds[replays / 2]);
}

double seconds_of(const Bench& bench, const std::function<void(const Queue&)>& work) {
  const Captured graph(bench.stream.get(), work);
  return seconds_of(bench.stream.get(), [&] { graph.launch(bench.stream.get()); });
}

void measure_copy(Bench& bench) {
  const std::size_t bytes = bench.tiny ? 4096 : std::size_t(2) << 30;
  const auto from = bench.noise(bytes);
  const auto to = bench.allocate(bytes);
  const double seconds = seconds_of(bench.stream.get(), [&] {
    PACELINE_CUDA_CHECK(cudaMemcpyAsync(to->data(), from->data(), bytes, cudaMemcpyDeviceToDevice,
                                        bench.stream.get()));
  });
  bench.bytes_per_second = 2 * double(bytes) / seconds;
  fmt::print("copy of {} MiB: {:.0f} GB/s read and written\n", bytes >> 20,
             bench.bytes_per_second * 1e-9);
}

// ---- Products ----------------------------------------------------------------------------------

void measure_product(const Bench& bench, const Shape& shape, const char* name, int outputs,
                     int inputs, WeightFormat format, const std::vector<int>& row_counts) {
  const auto layout = kernels::PackedLayout::of(format, outputs, inputs);
  const std::size_t bytes = layout.bytes();
  const int copies = bench.tiny ? 2 : int(cache_bytes / bytes) + 4;
  const auto memory = bench.weight(format, bytes * std::size_t(copies));
  fmt::print("  {:<5} {:<8} {:>6} x {:<5} {:<6}", shape.name, name, outputs, inputs,
             to_string(format));
  for (const int rows : row_counts) {
    const auto in = bench.rows(rows, inputs);
    const auto out = bench.allocate(std::size_t(rows) * std::size_t(outputs) * sizeof(float));
    const auto staged = bench.allocate(kernels::staged_bytes(rows, inputs));
    const kernels::StagedRows to{reinterpret_cast<std::uint16_t*>(staged->data())};
    PACELINE_CUDA_CHECK(kernels::stage(bench.stream.get(), to, in->tensor(rows, inputs)));
    const double seconds =
        seconds_of(bench,
                   [&](const Queue& queue) {
                     for (int i = 0; i < copies; ++i)
                       PACELINE_CUDA_CHECK(kernels::linear(
                           queue, out->tensor(rows, outputs), in->tensor(rows, inputs), to,
                           {layout, memory->data() + std::size_t(i) * bytes, nullptr}, false));
                   }) /
        copies;
    fmt::print("  {:>7.1f} us {:.2f}", seconds * 1e6,
               double(bytes) / seconds / bench.bytes_per_second);
  }
  fmt::print("\n");
}

void measure_products(const Bench& bench, std::span<const Shape> shapes) {
  const std::vector<int> rows{1, 4, 8, 16, 32, 64};
  fmt::print("products: us, and bytes of the weight over what the copy moves in that time, of 1, "
             "4, 8, 16, 32 and 64 rows\n");
  for (const Shape& s : shapes) {
    measure_product(bench, s, "qkv", s.qkv(), s.hidden, WeightFormat::bf16, rows);
    measure_product(bench, s, "o", s.hidden, s.heads * s.head_dim, WeightFormat::bf16, rows);
    measure_product(bench, s, "gate_up", 2 * s.ffn, s.hidden, WeightFormat::bf16, rows);
    measure_product(bench, s, "down", s.hidden, s.ffn, WeightFormat::bf16, rows);
    measure_product(bench, s, "head", s.vocabulary, s.hidden, WeightFormat::bf16, rows);
  }
  using enum WeightFormat;
  for (const auto format :
       {mxfp8, mxfp6, mxfp4, mxint8, q4_0, q4_1, q5_0, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_xs})
    for (const Shape& s : shapes.first(2)) {
      if (s.hidden % 256 != 0 && has_scaled_codes(format))
        continue; // Blocks of 256 are whole.
      measure_product(bench, s, "o", s.hidden, s.heads * s.head_dim, format, rows);
      measure_product(bench, s, "gate_up", 2 * s.ffn, s.hidden, format, rows);
    }
}

// ---- Attention and whole passes ----------------------------------------------------------------

/// The place of some rows at the end of a context, in device memory.
class Places {
public:
  Places(const Bench& bench, const Shape& s, int rows, int context)
      : sequence_(std::size_t(rows), 0), position_(std::size_t(rows), 0),
        pages_(std::size_t(context + page_tokens - 1) / page_tokens, 0u) {
    std::iota(position_.begin(), position_.end(), context - rows);
    std::iota(pages_.begin(), pages_.end(), 0u);
    const auto tiles = kernels::tile_rows_of(sequence_, s.heads, s.kv_heads);
    const std::vector<std::int32_t> first_page{0};
    held_ = {bench.upload(sequence_), bench.upload(position_), bench.upload(first_page),
             bench.upload(pages_), bench.upload(tiles)};
    rows_.count = rows;
    rows_.sequence = reinterpret_cast<const std::int32_t*>(held_[0]->data());
    rows_.position = reinterpret_cast<const std::int32_t*>(held_[1]->data());
    rows_.first_page = reinterpret_cast<const std::int32_t*>(held_[2]->data());
    rows_.pages = reinterpret_cast<const std::uint32_t*>(held_[3]->data());
    rows_.tiles = reinterpret_cast<const kernels::RowTile*>(held_[4]->data());
    rows_.tile_count = int(tiles.size());
    rows_.context = context;
  }
  const kernels::Rows& rows() const { return rows_; }
  int pages() const { return int(pages_.size()); }

private:
  std::vector<std::int32_t> sequence_;
  std::vector<std::int32_t> position_;
  std::vector<std::uint32_t> pages_;
  std::vector<std::shared_ptr<Buffer>> held_;
  kernels::Rows rows_;
};

/// A model's weights and cache: random numbers.
class Model {
public:
  /// format: that of the weights; none: it has no weights.
  Model(const Bench& bench, const Shape& s, int rows_most, int context_most,
        std::optional<WeightFormat> format = WeightFormat::bf16)
      : bench_(bench),
        shape_(s), layout_{s.layers, s.kv_heads, s.head_dim, page_tokens, DType::bf16},
        page_bytes_(layout_.token_bytes() * page_tokens),
        cache_(bench.noise(page_bytes_ * std::size_t((context_most + page_tokens) / page_tokens))),
        cos_(bench.rows(context_most, s.head_dim / 2)),
        sin_(bench.rows(context_most, s.head_dim / 2)), hidden_(bench.rows(rows_most, s.hidden)),
        normed_(bench.rows(rows_most, s.hidden)), qkv_(bench.rows(rows_most, s.qkv())),
        heads_(bench.rows(rows_most, s.heads * s.head_dim)), up_(bench.rows(rows_most, 2 * s.ffn)),
        gated_(bench.rows(rows_most, s.ffn)), logits_(bench.rows(rows_most, s.vocabulary)),
        norm_(bench.rows(1, s.hidden)),
        staged_(bench.allocate(
            kernels::staged_bytes(rows_most, std::max({s.ffn, s.hidden, s.heads * s.head_dim})))) {
    if (!format)
      return;
    format_ = *format;
    for (int layer = 0; layer < s.layers; ++layer)
      layers_.push_back({weight(s.qkv(), s.hidden), weight(s.hidden, s.heads * s.head_dim),
                         weight(2 * s.ffn, s.hidden), weight(s.hidden, s.ffn)});
    head_ = weight(s.vocabulary, s.hidden);
  }

  double weight_bytes() const { return double(weight_bytes_); }
  double cache_bytes(int context) const { return double(layout_.token_bytes()) * double(context); }

  void attend(const Queue& queue, const kernels::Rows& rows, int layer) {
    const auto pages = cache(layer);
    const std::size_t wanted = kernels::attention_workspace(rows.count, rows.tile_count,
                                                            shape_.heads, pages, rows.context);
    if (!workspace_ || workspace_->size() < wanted)
      workspace_ = bench_.allocate(wanted);
    const AttentionOptions options{1 / std::sqrt(float(shape_.head_dim)), 0, 0};
    PACELINE_CUDA_CHECK(
        kernels::attention(queue, heads_->tensor(rows.count, shape_.heads * shape_.head_dim),
                           qkv_->tensor(rows.count, shape_.qkv()), shape_.heads, options, rows,
                           pages, workspace_->data(), staged()));
  }

  /// One of the kernels between products.
  void small(const Queue& queue, const kernels::Rows& rows, std::string_view name) {
    const int n = rows.count;
    const auto* norm = reinterpret_cast<const float*>(norm_->data());
    if (name == "norm")
      PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed_->tensor(n, shape_.hidden),
                                            hidden_->tensor(n, shape_.hidden), norm, 1e-5f,
                                            staged()));
    else if (name == "gate")
      PACELINE_CUDA_CHECK(kernels::gate(queue, gated_->tensor(n, shape_.ffn),
                                        up_->tensor(n, 2 * shape_.ffn), Gating{Activation::silu},
                                        staged()));
    else
      PACELINE_CUDA_CHECK(kernels::rope_store(queue, qkv_->tensor(n, shape_.qkv()), shape_.heads,
                                              rope(), {}, rows, cache(0)));
  }

  /// The calls of a decode step, as CudaOperations makes them.
  void forward(const Queue& queue, const kernels::Rows& rows) {
    const int n = rows.count;
    const Shape& s = shape_;
    const Tensor hidden = hidden_->tensor(n, s.hidden);
    const Tensor normed = normed_->tensor(n, s.hidden);
    const Tensor qkv = qkv_->tensor(n, s.qkv());
    const Tensor heads = heads_->tensor(n, s.heads * s.head_dim);
    const Tensor up = up_->tensor(n, 2 * s.ffn);
    const Tensor gated = gated_->tensor(n, s.ffn);
    const auto* norm = reinterpret_cast<const float*>(norm_->data());
    for (int layer = 0; layer < s.layers; ++layer) {
      const Layer& w = layers_[std::size_t(layer)];
      const auto pages = cache(layer);
      PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed, hidden, norm, 1e-5f, staged()));
      PACELINE_CUDA_CHECK(kernels::linear(queue, qkv, normed, staged(), w.qkv, false));
      PACELINE_CUDA_CHECK(kernels::rope_store(queue, qkv, s.heads, rope(), {}, rows, pages));
      attend(queue, rows, layer);
      PACELINE_CUDA_CHECK(kernels::linear(queue, hidden, heads, staged(), w.o, true));
      PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed, hidden, norm, 1e-5f, staged()));
      PACELINE_CUDA_CHECK(kernels::linear(queue, up, normed, staged(), w.up, false));
      PACELINE_CUDA_CHECK(kernels::gate(queue, gated, up, Gating{Activation::silu}, staged()));
      PACELINE_CUDA_CHECK(kernels::linear(queue, hidden, gated, staged(), w.down, true));
    }
    PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed, hidden, norm, 1e-5f, staged()));
    PACELINE_CUDA_CHECK(
        kernels::linear(queue, logits_->tensor(n, s.vocabulary), normed, staged(), head_, false));
  }

private:
  struct Layer {
    kernels::PackedWeight qkv, o, up, down;
  };

  kernels::PackedWeight weight(int outputs, int inputs) {
    const auto layout = kernels::PackedLayout::of(format_, outputs, inputs);
    weights_.push_back(bench_.weight(format_, layout.bytes()));
    weight_bytes_ += layout.bytes();
    return {layout, weights_.back()->data(), nullptr};
  }
  kernels::Cache cache(int layer) const {
    return kernels::Cache::of(cache_->data(), page_bytes_, layout_, layer);
  }
  RopeTable rope() const {
    const int half = shape_.head_dim / 2;
    const int positions = int(cos_->size() / sizeof(float)) / half;
    return {cos_->tensor(positions, half), sin_->tensor(positions, half)};
  }
  kernels::StagedRows staged() const { return {reinterpret_cast<std::uint16_t*>(staged_->data())}; }

  const Bench& bench_;
  const Shape shape_;
  const KvLayout layout_;
  const std::size_t page_bytes_;
  const std::shared_ptr<Buffer> cache_, cos_, sin_, hidden_, normed_, qkv_, heads_, up_, gated_,
      logits_, norm_, staged_;
  std::shared_ptr<Buffer> workspace_;
  WeightFormat format_ = WeightFormat::bf16;
  std::vector<std::shared_ptr<Buffer>> weights_;
  std::size_t weight_bytes_ = 0;
  std::vector<Layer> layers_;
  kernels::PackedWeight head_;
};

std::vector<int> contexts(const Bench& bench) {
  return bench.tiny ? std::vector{64, 150} : std::vector{1024, 8192, 32768};
}

void measure_attention(const Bench& bench, std::span<const Shape> shapes) {
  fmt::print("attention of all layers, one after another: us a layer, and its cache's bytes over "
             "what the copy moves\n");
  for (const Shape& s : shapes)
    for (const int context : contexts(bench)) {
      Model model(bench, s, 8, context, {});
      fmt::print("  {:<5} context {:>5}:", s.name, context);
      for (const int rows : {1, 8}) {
        const Places places(bench, s, rows, context);
        const double seconds = seconds_of(bench,
                                          [&](const Queue& queue) {
                                            for (int layer = 0; layer < s.layers; ++layer)
                                              model.attend(queue, places.rows(), layer);
                                          }) /
                               s.layers;
        fmt::print("  {} rows {:>7.1f} us {:.2f}", rows, seconds * 1e6,
                   model.cache_bytes(context) / s.layers / seconds / bench.bytes_per_second);
      }
      fmt::print("\n");
    }
}

/// Kernels between products, each again and again: what they cost is mostly waiting.
void measure_small(const Bench& bench, std::span<const Shape> shapes) {
  constexpr int launches = 64;
  fmt::print("kernels between products, us of one of {} in a row, with 1 and 8 rows\n", launches);
  for (const Shape& s : shapes) {
    const int context = contexts(bench).front();
    Model model(bench, s, 8, context, {});
    for (const char* name : {"norm", "rope", "gate"}) {
      fmt::print("  {:<5} {:<5}", s.name, name);
      for (const int rows : {1, 8}) {
        const Places places(bench, s, rows, context);
        const double seconds = seconds_of(bench, [&](const Queue& queue) {
          for (int i = 0; i < launches; ++i)
            model.small(queue, places.rows(), name);
        });
        fmt::print("  {:>5.2f} us", seconds / launches * 1e6);
      }
      fmt::print("\n");
    }
  }
}

void measure_steps(const Bench& bench, const Shape& s, WeightFormat format) {
  Model model(bench, s, 16, contexts(bench).back(), format);
  for (const int context : contexts(bench)) {
    fmt::print("  {:<5} {:<6} context {:>5}:", s.name, to_string(format), context);
    for (const int rows : {1, 2, 4, 8, 16}) {
      const Places places(bench, s, rows, context);
      const double seconds =
          seconds_of(bench, [&](const Queue& queue) { model.forward(queue, places.rows()); });
      fmt::print("  {} rows {:.3f} ms {:.2f}", rows, seconds * 1e3,
                 (model.weight_bytes() + model.cache_bytes(context)) / seconds /
                     bench.bytes_per_second);
    }
    fmt::print("\n");
  }
}

void measure_steps(const Bench& bench, std::span<const Shape> shapes) {
  fmt::print("decode steps as one graph: ms, and bytes of weights and cache over what the copy "
             "moves\n");
  for (const Shape& s : shapes)
    measure_steps(bench, s, WeightFormat::bf16);
  if (bench.tiny) // Blocks of 256 are whole.
    return;
  for (const Shape& s : shapes)
    for (const auto format : {WeightFormat::mxfp4, WeightFormat::q4_k, WeightFormat::q8_0})
      measure_steps(bench, s, format);
}

/// The first shape's step on one stream beside steps of the last on another of higher priority.
void measure_streams(const Bench& bench, std::span<const Shape> shapes) {
  const Shape& large = shapes.front();
  const Shape& small = shapes.back();
  const int context = contexts(bench).front();
  Model target(bench, large, 8, context);
  Model draft(bench, small, 8, context);
  const Stream target_stream = make_stream(priority_of("target"));
  const Stream draft_stream = make_stream(priority_of("draft"));
  const Places target_places(bench, large, 5, context);
  const Places draft_places(bench, small, 1, context);
  const Captured target_step(target_stream.get(), [&](const Queue& queue) {
    target.forward(queue, target_places.rows());
  });
  const Captured draft_step(draft_stream.get(),
                            [&](const Queue& queue) { draft.forward(queue, draft_places.rows()); });
  const double target_alone =
      seconds_of(target_stream.get(), [&] { target_step.launch(target_stream.get()); });
  const double draft_alone =
      seconds_of(draft_stream.get(), [&] { draft_step.launch(draft_stream.get()); });
  fmt::print("streams: {} of 5 rows alone {:.3f} ms, {} of 1 row alone {:.3f} ms\n", large.name,
             target_alone * 1e3, small.name, draft_alone * 1e3);
  const Event begin = timing_event();
  const Event drafted = timing_event();
  for (const int passes : {1, 2, 4}) {
    const double both = seconds_of(target_stream.get(), [&] {
      PACELINE_CUDA_CHECK(cudaEventRecord(begin.get(), target_stream.get()));
      PACELINE_CUDA_CHECK(cudaStreamWaitEvent(draft_stream.get(), begin.get()));
      target_step.launch(target_stream.get());
      for (int i = 0; i < passes; ++i)
        draft_step.launch(draft_stream.get());
      PACELINE_CUDA_CHECK(cudaEventRecord(drafted.get(), draft_stream.get()));
      PACELINE_CUDA_CHECK(cudaStreamWaitEvent(target_stream.get(), drafted.get()));
    });
    float until_drafted = 0;
    PACELINE_CUDA_CHECK(cudaEventElapsedTime(&until_drafted, begin.get(), drafted.get()));
    const double in_turns = target_alone + passes * draft_alone;
    fmt::print(
        "  {} passes beside it: both {:.3f} ms ({:.2f} of in turns), the draft's {:.3f} ms\n",
        passes, both * 1e3, both / in_turns, double(until_drafted));
  }
}

// ---- Sampling ----------------------------------------------------------------------------------

void measure_sampling(const Bench& bench) {
  fmt::print("sampling: us of a proposal of 1 row, and of a window of 5 rows judged\n");
  struct Setting {
    const char* name;
    float temperature, top_p;
    int top_k;
    bool coupled;
  };
  constexpr Setting settings[] = {{"greedy", 0, 1, 0, false},
                                  {"temperature 0.8", 0.8f, 1, 0, false},
                                  {"top-p 0.95", 0.8f, 0.95f, 0, false},
                                  {"top-k 40", 0.8f, 1, 40, false},
                                  {"coupled", 0.8f, 1, 0, true}};
  for (const int vocabulary : bench.tiny ? std::vector{300} : std::vector{128256, 151936})
    for (const bool peaked : {true, false}) {
      constexpr int judged = 5;
      std::vector<float> logits(std::size_t(judged) * std::size_t(vocabulary));
      std::mt19937 random(3);
      std::normal_distribution<float> normal(0, peaked ? 2.5f : 0.5f);
      for (float& logit : logits)
        logit = normal(random);
      for (int row = 0; peaked && row < judged; ++row)
        logits[std::size_t(row) * std::size_t(vocabulary) + 7] = 18;
      const auto from = bench.upload(logits);
      const auto probabilities = bench.allocate(logits.size() * sizeof(float));
      const auto q = bench.upload(std::vector<float>(std::size_t(judged) * std::size_t(vocabulary),
                                                     1.0f / float(vocabulary)));
      const auto results = bench.allocate(judged * sizeof(kernels::VerifyResult) +
                                          judged * sizeof(kernels::ProposeResult));
      for (const Setting& setting : settings) {
        std::vector<kernels::ProposeRow> proposals(1);
        std::vector<kernels::VerifyRow> rows(judged);
        for (int i = 0; i < judged; ++i) {
          const auto offset = std::size_t(i) * std::size_t(vocabulary);
          kernels::WarpRow row;
          row.logits = reinterpret_cast<const float*>(from->data()) + offset;
          row.vocabulary = vocabulary;
          row.warping.temperature = setting.temperature;
          row.warping.top_p = setting.top_p;
          row.warping.top_k = setting.top_k;
          row.probabilities = reinterpret_cast<float*>(probabilities->data()) + offset;
          auto& verify = rows[std::size_t(i)];
          verify.row = row;
          verify.rule = setting.coupled ? kernels::Rule::coupled : kernels::Rule::rejection;
          verify.noise = {std::uint64_t(i + 1), 0};
          verify.judges = i + 1 < judged;
          verify.token = 7;
          verify.q = setting.coupled ? nullptr : reinterpret_cast<const float*>(q->data()) + offset;
          if (i == 0) {
            proposals[0].row = row;
            proposals[0].rule = verify.rule;
            proposals[0].noise = verify.noise;
          }
        }
        const auto sent_proposals = bench.upload(proposals);
        const auto sent_rows = bench.upload(rows);
        const double proposed = seconds_of(bench, [&](const Queue& queue) {
          PACELINE_CUDA_CHECK(kernels::propose(
              queue, reinterpret_cast<const kernels::ProposeRow*>(sent_proposals->data()), 1,
              reinterpret_cast<kernels::ProposeResult*>(results->data()), vocabulary));
        });
        const double verified = seconds_of(bench, [&](const Queue& queue) {
          PACELINE_CUDA_CHECK(kernels::verify(
              queue, reinterpret_cast<const kernels::VerifyRow*>(sent_rows->data()), judged,
              reinterpret_cast<kernels::VerifyResult*>(results->data()), vocabulary));
        });
        fmt::print("  {:>6} tokens, {:<6} {:<16} {:>7.1f} us {:>7.1f} us\n", vocabulary,
                   peaked ? "peaked" : "flat", setting.name, proposed * 1e6, verified * 1e6);
      }
    }
}

void measure(std::set<std::string> parts) {
  const bool tiny = parts.erase("tiny") > 0;
  const auto wanted = [&](const char* part) { return parts.empty() || parts.count(part) > 0; };
  const std::span<const Shape> shapes = tiny ? std::span<const Shape>(tiny_shapes) : full_shapes;
  Bench bench(tiny);
  measure_copy(bench);
  if (wanted("products"))
    measure_products(bench, shapes);
  if (wanted("attention"))
    measure_attention(bench, shapes);
  if (wanted("small"))
    measure_small(bench, shapes);
  if (wanted("sampling"))
    measure_sampling(bench);
  if (wanted("steps"))
    measure_steps(bench, shapes);
  if (wanted("streams"))
    measure_streams(bench, shapes);
}

} // namespace
} // namespace paceline::gpu::cuda

int main(int argc, char** argv) {
  try {
    paceline::gpu::cuda::measure({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "cuda_figures: {}\n", e.what());
    return 1;
  }
}
