#include "tests/gpu/cuda/figures/bench.hpp"

#include <algorithm>
#include <array>

namespace paceline::gpu::cuda::figures {

Captured::Captured(cudaStream_t stream, const std::function<void(const Queue&)>& work) {
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

Event timing_event() {
  cudaEvent_t event = nullptr;
  PACELINE_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

double seconds_of(cudaStream_t stream, const std::function<void()>& launch) {
  const Event begin = timing_event();
  const Event end = timing_event();
  constexpr int replays = 9;
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

} // namespace paceline::gpu::cuda::figures
