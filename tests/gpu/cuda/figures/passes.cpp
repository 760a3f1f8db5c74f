// Attention, whole passes, and the kernels between products.
#include "tests/gpu/cuda/figures/model.hpp"

#include <fmt/format.h>

namespace paceline::gpu::cuda::figures {

namespace {

std::vector<int> contexts(const Bench& bench) {
  return bench.tiny ? std::vector{64, 150} : std::vector{1024, 8192, 32768};
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

} // namespace

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

} // namespace paceline::gpu::cuda::figures
