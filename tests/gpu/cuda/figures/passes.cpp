// Attention, whole passes, and the kernels between products.
#include "gpu/cuda/partition.hpp"
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

/// Seconds of a step of each model, alone.
struct Alone {
  double target = 0;
  double draft = 0;
};

/// A stream for steps of each model.
struct TwoStreams {
  Stream target;
  Stream draft;
};

/// Prints what steps take on these streams, beside what they took `in_turns`; returns what they
/// take alone.
Alone measure_beside(const Bench& bench, std::span<const Shape> shapes, const TwoStreams& streams,
                     std::optional<Alone> in_turns) {
  const Shape& large = shapes.front();
  const Shape& small = shapes.back();
  const int context = contexts(bench).front();
  Model target(bench, large, 8, context);
  Model draft(bench, small, 8, context);
  const cudaStream_t target_stream = streams.target.get();
  const cudaStream_t draft_stream = streams.draft.get();
  const Places target_places(bench, large, 5, context);
  const Places draft_places(bench, small, 1, context);
  const Captured target_step(
      target_stream, [&](const Queue& queue) { target.forward(queue, target_places.rows()); });
  const Captured draft_step(draft_stream,
                            [&](const Queue& queue) { draft.forward(queue, draft_places.rows()); });
  const Alone alone{seconds_of(target_stream, [&] { target_step.launch(target_stream); }),
                    seconds_of(draft_stream, [&] { draft_step.launch(draft_stream); })};
  fmt::print("{} of 5 rows alone {:.3f} ms, {} of 1 row alone {:.3f} ms\n", large.name,
             alone.target * 1e3, small.name, alone.draft * 1e3);
  const Event begin = timing_event();
  const Event drafted = timing_event();
  for (const int passes : {1, 2, 4}) {
    const double both = seconds_of(target_stream, [&] {
      PACELINE_CUDA_CHECK(cudaEventRecord(begin.get(), target_stream));
      PACELINE_CUDA_CHECK(cudaStreamWaitEvent(draft_stream, begin.get()));
      target_step.launch(target_stream);
      for (int i = 0; i < passes; ++i)
        draft_step.launch(draft_stream);
      PACELINE_CUDA_CHECK(cudaEventRecord(drafted.get(), draft_stream));
      PACELINE_CUDA_CHECK(cudaStreamWaitEvent(target_stream, drafted.get()));
    });
    float until_drafted = 0;
    PACELINE_CUDA_CHECK(cudaEventElapsedTime(&until_drafted, begin.get(), drafted.get()));
    const Alone& one = in_turns ? *in_turns : alone;
    fmt::print(
        "  {} passes beside it: both {:.3f} ms ({:.2f} of in turns), the draft's {:.3f} ms\n",
        passes, both * 1e3, both / (one.target + passes * one.draft), double(until_drafted));
  }
  return alone;
}

/// The first shape's step on one stream beside steps of the last on another of higher priority,
/// both on all multiprocessors, and the draft's on 16 and on 24 of them that the target's leaves.
void measure_streams(const Bench& bench, std::span<const Shape> shapes) {
  fmt::print("streams: ");
  const Alone whole = measure_beside(
      bench, shapes, {make_stream(priority_of("target")), make_stream(priority_of("draft"))}, {});
  for (const int kept : {16, 24}) {
    const auto few = Partition::of(*bench.context, {0, kept - 1});
    const auto others = Partition::of(*bench.context, {kept, std::numeric_limits<int>::max()});
    if (!few || !others) {
      fmt::print("  {}\n", (few ? others : few).error().text());
      return;
    }
    fmt::print("streams, {} multiprocessors for the draft: ", kept);
    (void)measure_beside(
        bench, shapes,
        {(*others)->make_stream(priority_of("target")), (*few)->make_stream(priority_of("draft"))},
        whole);
  }
}

} // namespace paceline::gpu::cuda::figures
