#include "gpu/cuda/graphs.hpp"

#include "gpu/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::gpu::cuda {
namespace {

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;

/// Captures on the stream itself, so that kernels keep its priority. Every kernel was launched
/// before, so none has to be loaded during the capture, which would break it.
GraphExec captured_graph(cudaStream_t stream, const Recording& recording) {
  PACELINE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t captured = nullptr;
  try {
    recording.issue(stream);
  } catch (...) { // The capture has to end in any case.
    (void)cudaStreamEndCapture(stream, &captured);
    const Graph dropped(captured);
    throw;
  }
  PACELINE_CUDA_CHECK(cudaStreamEndCapture(stream, &captured));
  const Graph graph(captured);
  cudaGraphExec_t made = nullptr;
  PACELINE_CUDA_CHECK(cudaGraphInstantiate(&made, captured, 0));
  return GraphExec(made);
}

} // namespace

/// Returns null if something fails.
GraphExec Graphs::capture(cudaStream_t stream, const Recording& recording) {
  try {
    GraphExec graph = captured_graph(stream, recording);
    ++context_.graphs().made;
    return graph;
  } catch (const CudaError& e) {
    (void)cudaGetLastError(); // The next call reports a sticky error.
    if (context_.graphs().failed++ == 0)
      context_.warn(fmt::format("a CUDA graph cannot be made, so its kernels are launched one by "
                                "one: {}",
                                e.what()));
    return {};
  }
}

bool Graphs::bring_forward(Pieces& from, Pieces& to, const Recording& recording) {
  const auto found = std::find_if(from.begin(), from.end(),
                                  [&](const Piece& piece) { return piece.recording == recording; });
  if (found == from.end())
    return false;
  to.splice(to.begin(), from, found);
  return true;
}

void Graphs::launch(cudaStream_t stream, Recording& recording) {
  if (recording.empty())
    return;
  if (!bring_forward(again_, again_, recording)) {
    if (!bring_forward(once_, again_, recording)) {
      recording.issue(stream);
      return remember(recording);
    }
    again_.front().graph = capture(stream, recording);
    if (again_.size() > limits::cuda_graphs)
      again_.pop_back();
  }
  const GraphExec& graph = again_.front().graph;
  if (!graph)
    return recording.issue(stream);
  PACELINE_CUDA_CHECK(cudaGraphLaunch(graph.get(), stream));
  ++context_.graphs().launched;
}

void Graphs::remember(Recording& recording) {
  if (!recording.comes_again())
    return;
  once_.push_front({std::exchange(recording, Recording()), GraphExec()});
  if (once_.size() > limits::cuda_pieces_seen)
    once_.pop_back();
}

} // namespace paceline::gpu::cuda
