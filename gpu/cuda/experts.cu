// The router of a mixture of experts, and the sums behind it. Products by experts: linear.cu.
#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int router_warps = 4;
constexpr int combine_threads = 256;

/// What experts of a row are chosen by.
struct Keys {
  const float* scores;
  const float* bias; ///< Null: none.
  unsigned open;     ///< A bit for each group whose experts may be chosen.
  int group;         ///< Experts of a group.

  __device__ float of(int expert) const {
    return bias ? scores[expert] + bias[expert] : scores[expert];
  }
  __device__ bool is_open(int expert) const { return open >> (expert / group) & 1; }
};

/// Returns whether `each` comes behind `last`, or is a number if nothing was chosen yet.
__device__ bool is_behind(Scored last, Scored each) {
  return last.id < 0 ? each.score == each.score : comes_before(last, each);
}

/// Returns, in every lane, the first expert behind `last`; an id below 0 if the others are no
/// numbers.
__device__ Scored next_expert(const Keys& keys, int experts, Scored last) {
  Scored best{0, -1};
  for (int e = lane_index(); e < experts; e += warp_lanes) {
    const Scored each{keys.of(e), e};
    if (keys.is_open(e) && is_behind(last, each) && comes_before(each, best))
      best = each;
  }
  return warp_reduce(best, First());
}

/// Returns the sum of a group's two best keys.
__device__ float group_score(const Keys& keys, int group) {
  float best = -INFINITY;
  float second = -INFINITY;
  for (int e = group * keys.group; e < (group + 1) * keys.group; ++e) {
    const float key = keys.of(e);
    if (key > best) {
      second = best;
      best = key;
    } else if (key > second) {
      second = key;
    }
  }
  return best + second;
}

/// Returns, in every lane, the bits of the groups that a row may go to. A lane has a group.
__device__ unsigned open_groups(const Keys& keys, const RouterOptions& options) {
  if (options.groups_used == options.groups)
    return all_lanes;
  const int lane = lane_index();
  const bool own = lane < options.groups;
  const Scored mine{own ? group_score(keys, lane) : 0.0f, lane};
  unsigned open = 0;
  Scored last{0, -1};
  for (int k = 0; k < options.groups_used; ++k) {
    const Scored found = warp_reduce(own && is_behind(last, mine) ? mine : Scored{0, -1}, First());
    last = from_lane(mine, found.id < 0 ? k : found.id);
    open |= 1u << last.id;
  }
  return open;
}

/// Returns, in every lane, the sum of exponentials that a softmax divides by.
__device__ float softmax_total(const float* scores, int experts, float highest) {
  float total = 0;
  for (int e = lane_index(); e < experts; e += warp_lanes)
    total += expf(scores[e] - highest);
  return warp_reduce(total, Add());
}

/// Chooses the experts of a row. A warp has a row.
__global__ void __launch_bounds__(router_warps* warp_lanes)
    choose(Routing routing, Tensor scores, const float* bias, RouterOptions options) {
  ptx::await_previous();
  const int row = int(blockIdx.x) * router_warps + warp_index();
  if (row >= routing.rows)
    return;
  float* const from = scores.row(row);
  std::int32_t* const chosen = routing.chosen + std::size_t(row) * std::size_t(routing.top_k);
  float* const weights = routing.weights + std::size_t(row) * std::size_t(routing.top_k);
  const bool softmax = options.scores == RouterScores::softmax;
  if (!softmax)
    for (int e = lane_index(); e < routing.experts; e += warp_lanes)
      from[e] = 1 / (1 + expf(-from[e]));
  __syncwarp();
  Keys keys{from, bias, all_lanes, routing.experts / options.groups};
  keys.open = open_groups(keys, options);
  float highest = 0;
  float total = 1;
  float sum = 0;
  Scored last{0, -1};
  for (int k = 0; k < routing.top_k; ++k) {
    const Scored found = next_expert(keys, routing.experts, last);
    const int expert = found.id < 0 ? k : found.id;
    last = {keys.of(expert), expert};
    if (softmax && k == 0) {
      highest = from[expert];
      total = softmax_total(from, routing.experts, highest);
    }
    const float weight = softmax ? expf(from[expert] - highest) / total : from[expert];
    sum += weight;
    if (lane_index() == 0) {
      chosen[k] = expert;
      weights[k] = weight;
    }
  }
  const float divisor = (options.normalised ? sum : 1) + router_sum_least;
  if (lane_index() == 0)
    for (int k = 0; k < routing.top_k; ++k)
      weights[k] = weights[k] / divisor * options.scale *
                   (options.expert_scales ? options.expert_scales[chosen[k]] : 1);
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

__global__ void spread_picks(Tensor out, Tensor in, Routing routing) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column >= out.cols)
    return;
  const int expert = column / in.cols;
  float value = -INFINITY;
  for (int k = 0; k < routing.top_k; ++k) {
    const std::size_t pick = std::size_t(row) * std::size_t(routing.top_k) + std::size_t(k);
    if (routing.chosen[pick] == expert)
      value = in.row(routing.slots[pick])[column % in.cols];
  }
  out.row(row)[column] = value;
}

__global__ void multiply_by_sigmoid(Tensor x, Tensor scores) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column < x.cols)
    x.row(row)[column] *= 1 / (1 + expf(-scores.row(row)[scores.cols == 1 ? 0 : column]));
}

} // namespace

cudaError_t route(const Queue& queue, const Routing& routing, Tensor scores, const float* bias,
                  const RouterOptions& options) {
  const auto grid = [](int warps) { return dim3(unsigned(divide_up(warps, router_warps))); };
  if (const cudaError_t refused = launch(queue, grid(routing.rows), router_warps * warp_lanes, 0,
                                         choose, routing, scores, bias, options))
    return refused;
  return launch(queue, grid(routing.experts + 1), router_warps * warp_lanes, 0, sort_by_expert,
                routing);
}

cudaError_t combine(const Queue& queue, Tensor out, Tensor in, const Routing& routing, bool add) {
  const dim3 grid(unsigned(divide_up(out.cols, combine_threads)), unsigned(out.rows));
  return launch(queue, grid, combine_threads, 0, add_picks, out, in, routing, add);
}

cudaError_t spread(const Queue& queue, Tensor out, Tensor in, const Routing& routing) {
  const dim3 grid(unsigned(divide_up(out.cols, combine_threads)), unsigned(out.rows));
  return launch(queue, grid, combine_threads, 0, spread_picks, out, in, routing);
}

cudaError_t scale_by_sigmoid(const Queue& queue, Tensor x, Tensor scores) {
  const dim3 grid(unsigned(divide_up(x.cols, combine_threads)), unsigned(x.rows));
  return launch(queue, grid, combine_threads, 0, multiply_by_sigmoid, x, scores);
}

} // namespace paceline::gpu::cuda::kernels
