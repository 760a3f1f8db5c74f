// Pieces that come again are launched as CUDA graphs: one call for all of their kernels and copies.
#pragma once

#include "gpu/cuda/handle.hpp"
#include "gpu/cuda/recording.hpp"

#include <list>

namespace paceline::gpu::cuda {

/// A piece is launched call by call when it is seen for the first time, captured as a graph when it
/// is seen for the second, and from then on its graph is launched. It is seen again only where
/// every call has the same parameters, addresses included: so a graph does what its calls would
/// have done, whatever was allocated or freed in between. Bounded: limits::cuda_graphs and
/// limits::cuda_pieces_seen, the oldest being forgotten. Threads: the lane's.
class Graphs {
public:
  /// Enqueues what was recorded; what it leaves of the recording is not to be used but cleared.
  /// Where a graph cannot be had the piece is launched call by call. Throws CudaError.
  void launch(cudaStream_t stream, Recording& recording);

private:
  struct Piece {
    Recording recording;
    GraphExec graph; ///< Null: not made yet, or not to be had.
  };
  using Pieces = std::list<Piece>; ///< Latest first.

  /// Whether it was in `from`; then it is the first of `to`.
  static bool bring_forward(Pieces& from, Pieces& to, const Recording& recording);
  void remember(Recording& recording);

  Pieces once_;  ///< Seen once,
  Pieces again_; ///< and more often.
};

} // namespace paceline::gpu::cuda
