// The router of a mixture of experts, and the sums behind it. Products by experts: linear.cu.
#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int router_warps = 4;
constexpr int combine_threads = 256;

/// Returns, in every lane, the first expert behind `last`; an id below 0 if the others are no
/// numbers.
__device__ Scored next_expert(const float* scores, int experts, Scored last) {
  Scored best{0, -1};
  for (int e = lane_index(); e < experts; e += warp_lanes) {
    const Scored each{scores[e], e};
    const bool behind = last.id < 0 ? each.score == each.score : comes_before(last, each);
    if (behind && comes_before(each, best))
      best = each;
  }
  return warp_reduce(best, First());
}

/// Chooses the experts of a row. A warp has a row.
__global__ void __launch_bounds__(router_warps* warp_lanes)
    choose(Routing routing, Tensor scores, RouterOptions options) {
  ptx::await_previous();
  const int row = int(blockIdx.x) * router_warps + warp_index();
  if (row >= routing.rows)
    return;
  const float* const from = scores.row(row);
  std::int32_t* const chosen = routing.chosen + std::size_t(row) * std::size_t(routing.top_k);
  float* const weights = routing.weights + std::size_t(row) * std::size_t(routing.top_k);
  float highest = 0;
  float total = 0;
  float sum = 0;
  Scored last{0, -1};
  for (int k = 0; k < routing.top_k; ++k) {
    const Scored found = next_expert(from, routing.experts, last);
    const int expert = found.id < 0 ? k : found.id;
    last = {from[expert], expert};
    if (k == 0) {
      highest = from[expert];
      for (int e = lane_index(); e < routing.experts; e += warp_lanes)
        total += expf(from[e] - highest);
      total = warp_reduce(total, Add());
    }
    const float weight = expf(from[expert] - highest) / total;
    sum += weight;
    if (lane_index() == 0) {
      chosen[k] = expert;
      weights[k] = weight;
    }
  }
  if (options.normalised && lane_index() == 0)
    for (int k = 0; k < routing.top_k; ++k)
      weights[k] /= sum;
}

/// Gives the picks of an expert their slots. A warp has an expert, and counts by itself the picks
/// of those before it.
__global__ void __launch_bounds__(router_warps* warp_lanes) sort_by_expert(Routing routing) {
  ptx::await_previous();
  const int expert = int(blockIdx.x) * router_warps + warp_index();
  if (expert > routing.experts)
    return;
  const int picks = routing.picks();
  int before = 0;
  for (int pick = lane_index(); pick < picks; pick += warp_lanes)
    before += routing.chosen[pick] < expert;
  int slot = warp_reduce(before, Add());
  if (lane_index() == 0)
    routing.first[expert] = slot;
  for (int first = 0; first < picks; first += warp_lanes) {
    const int pick = first + lane_index();
    const bool own = pick < picks && routing.chosen[pick] == expert;
    const unsigned owners = __ballot_sync(all_lanes, own);
    if (own) {
      const int at = slot + __popc(owners & ((1u << lane_index()) - 1));
      routing.slots[pick] = at;
      routing.picks_of[at] = pick;
    }
    slot += __popc(owners);
  }
}

__global__ void add_picks(Tensor out, Tensor in, Routing routing, bool add) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column >= out.cols)
    return;
  float sum = 0;
  for (int k = 0; k < routing.top_k; ++k) {
    const std::size_t pick = std::size_t(row) * std::size_t(routing.top_k) + std::size_t(k);
    sum += routing.weights[pick] * in.row(routing.slots[pick])[column];
  }
  float& to = out.row(row)[column];
  to = add ? to + sum : sum;
}

} // namespace

cudaError_t route(const Queue& queue, const Routing& routing, Tensor scores,
                  const RouterOptions& options) {
  const auto grid = [](int warps) { return dim3(unsigned(divide_up(warps, router_warps))); };
  if (const cudaError_t refused = launch(queue, grid(routing.rows), router_warps * warp_lanes, 0,
                                         choose, routing, scores, options))
    return refused;
  return launch(queue, grid(routing.experts + 1), router_warps * warp_lanes, 0, sort_by_expert,
                routing);
}

cudaError_t combine(const Queue& queue, Tensor out, Tensor in, const Routing& routing, bool add) {
  const dim3 grid(unsigned(divide_up(out.cols, combine_threads)), unsigned(out.rows));
  return launch(queue, grid, combine_threads, 0, add_picks, out, in, routing, add);
}

} // namespace paceline::gpu::cuda::kernels
