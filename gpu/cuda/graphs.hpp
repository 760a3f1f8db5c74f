// Repeated pieces are launched as CUDA graphs: one call for all of their kernels and copies.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/handle.hpp"
#include "gpu/cuda/recording.hpp"

#include <list>

namespace paceline::gpu::cuda {

/// The pieces seen lately. A piece is launched call by call the first time, captured as a graph the
/// second time, and from then on its graph is launched. A piece is the same only if every call has
/// the same parameters, addresses included, so a graph does what its calls would have done,
/// whatever was allocated or freed in between. The numbers are bounded by limits::cuda_graphs and
/// limits::cuda_pieces_seen; the oldest are forgotten. All members are called on the lane's thread.
class Graphs {
public:
  /// context: counts the graphs, and outlives this.
  explicit Graphs(Context& context) : context_(context) {}

  /// Enqueues the recorded calls; afterwards the recording must be cleared before use. If a graph
  /// cannot be made, the piece is launched call by call, and the GPU's first time is logged. Throws
  /// CudaError.
  void launch(cudaStream_t stream, Recording& recording);

private:
  struct Piece {
    Recording recording;
    GraphExec graph; ///< Null: not made yet, or could not be made.
  };
  using Pieces = std::list<Piece>; ///< Latest first.

  /// Moves the piece from `from` to the front of `to`; returns whether it was there.
  static bool bring_forward(Pieces& from, Pieces& to, const Recording& recording);
  void remember(Recording& recording);
  GraphExec capture(cudaStream_t stream, const Recording& recording);

  Context& context_;
  Pieces once_;  ///< Seen once.
  Pieces again_; ///< Seen more often.
};

} // namespace paceline::gpu::cuda
