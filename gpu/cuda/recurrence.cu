// Recurrent layers. A block has one value head of one sequence, and a thread one column of its
// matrix, which stays in shared memory for all rows of the pass.
#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/state_rows.cuh"

#include <algorithm>

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int keep_threads = 256;
constexpr float norm_epsilon = 1e-6f; // added to a query's and a key's squared length

__device__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

/// Returns log(1 + exp(x)).
__device__ float softplus(float x) {
  return x > 20 ? x : log1pf(expf(x));
}

/// What the rows of a run are, those of this pass and those that were kept before.
struct RunRows {
  Tensor in;
  Tensor rates;
  const StateRun& run;
  const States& states;
  int channels;

  __device__ int row_of(int position) const { return run.first_row + position - run.position; }
  __device__ const float* channels_of(int position) const {
    return position < run.position ? row_before(states, run, position) : in.row(row_of(position));
  }
  __device__ const float* rates_of(int position) const {
    return position < run.position ? row_before(states, run, position) + channels
                                   : rates.row(row_of(position));
  }
};

/// Returns what silu makes of a channel's convolution at a position.
__device__ float convolved(const RunRows& rows, const Recurrence& rule, int position, int channel) {
  float sum = rule.bias ? rule.bias[channel] : 0;
  for (int tap = 0; tap < rule.taps; ++tap)
    if (const int from = position - rule.taps + 1 + tap; from >= 0)
      sum =
          fmaf(rule.kernel[std::size_t(tap) * std::size_t(rule.channels()) + std::size_t(channel)],
               rows.channels_of(from)[channel], sum);
  return sum * sigmoid(sum);
}

/// Puts a query or a key in `to`, [key_dim] of shared memory; with StateUpdate::delta at length
/// sqrt(key_dim) * scale.
__device__ void load_vector(float* to, const RunRows& rows, const Recurrence& rule, int position,
                            int first_channel, float scale, float* scratch) {
  const int i = int(threadIdx.x);
  float x = i < rule.key_dim ? convolved(rows, rule, position, first_channel + i) : 0;
  const auto dim = float(rule.key_dim);
  if (rule.update == StateUpdate::delta) {
    const float squares = block_reduce(x * x, Add(), scratch);
    x = x / sqrtf(squares / dim + norm_epsilon / dim) * scale;
  } else {
    __syncthreads(); // Others may still read the vector before.
  }
  if (i < rule.key_dim)
    to[i] = x;
  __syncthreads();
}

/// Returns the time that a row takes for a value head.
__device__ float time_of(const Recurrence& rule, const float* rates, int head) {
  const float time = softplus(rates[rule.first_time() + head] + rule.offsets[head]);
  return fminf(fmaxf(time, rule.time_least), rule.time_most);
}

/// Advances one column of a value head's matrix by a row.
__device__ void change_column(float* column, const Recurrence& rule, const float* key, float value,
                              const float* rates, int head) {
  const float time = time_of(rule, rates, head);
  const float decay = expf(rule.speeds[head] * time);
  float change = value * time;
  if (rule.update == StateUpdate::delta) {
    float known = 0;
    for (int i = 0; i < rule.key_dim; ++i)
      known = fmaf(column[i * rule.value_dim] * decay, key[i], known);
    change = (value - known) * sigmoid(rates[head]);
  }
  for (int i = 0; i < rule.key_dim; ++i) {
    float& at = column[i * rule.value_dim];
    at = fmaf(key[i], change, at * decay);
  }
}

__global__ void advance_states(Tensor out, Tensor in, Tensor rates, Recurrence rule,
                               const StateRun* runs, States states) {
  ptx::await_previous();
  const StateRun run = runs[blockIdx.y];
  const int head = int(blockIdx.x);
  const int key_head = rule.key_head_of(head);
  const int column = int(threadIdx.x);
  const bool has_column = column < rule.value_dim;
  const float scale = 1 / sqrtf(float(rule.key_dim));
  float* const scratch = &ptx::shared_memory<float>();
  float* const query = scratch + block_warps_max;
  float* const key = query + rule.key_dim;
  float* const matrix = key + rule.key_dim;
  const auto matrix_in = [&](std::uint32_t state) {
    return states.of(state) + std::size_t(head) * std::size_t(states.layout.head_floats);
  };
  const RunRows rows{in, rates, run, states, rule.channels()};
  const auto leave_in = [&](std::uint32_t state) {
    for (int i = 0; has_column && i < rule.key_dim; ++i)
      matrix_in(state)[i * rule.value_dim + column] = matrix[i * rule.value_dim + column];
  };
  const bool changes = run.certain > run.held || run.begin >= 0;
  const float* const before = matrix_in(run.state_before());
  for (int i = 0; has_column && i < rule.key_dim; ++i)
    matrix[i * rule.value_dim + column] = run.held > 0 ? before[i * rule.value_dim + column] : 0;
  for (int p = run.held < run.position ? run.held : run.position; p < run.end(); ++p) {
    if (p == run.snapshot_at && run.snapshot >= 0)
      leave_in(std::uint32_t(run.snapshot));
    if (p == run.certain && changes)
      leave_in(run.state);
    const bool moves = p >= run.held;
    float value = 0;
    if (has_column && (moves || rule.skips))
      value = convolved(rows, rule, p, 2 * rule.keys() + head * rule.value_dim + column);
    if (moves) {
      load_vector(key, rows, rule, p, rule.keys() + key_head * rule.key_dim, scale, scratch);
      if (has_column)
        change_column(matrix + column, rule, key, value, rows.rates_of(p), head);
    }
    if (p >= run.position) {
      load_vector(query, rows, rule, p, key_head * rule.key_dim, scale * scale, scratch);
      float sum = 0;
      for (int i = 0; has_column && i < rule.key_dim; ++i)
        sum = fmaf(matrix[i * rule.value_dim + column], query[i], sum);
      if (has_column)
        out.row(rows.row_of(p))[head * rule.value_dim + column] =
            rule.skips ? fmaf(rule.skips[head], value, sum) : sum;
    }
  }
  if (run.snapshot_at == run.end() && run.snapshot >= 0)
    leave_in(std::uint32_t(run.snapshot));
  if (run.certain == run.end() && changes)
    leave_in(run.state);
}

/// Keeps rows of the runs, once all heads have read what they replace: those that the next pass
/// reads, or those of snapshots.
__global__ void keep_rows(Tensor in, Tensor rates, Recurrence rule, const StateRun* runs,
                          States states, bool snapshots) {
  ptx::await_previous();
  const StateRun run = runs[blockIdx.z];
  const Keeping kept = keeping(run, rule.taps, snapshots);
  const int position = kept.first + int(blockIdx.y);
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (position >= kept.end || i >= states.layout.row_floats)
    return;
  const RunRows rows{in, rates, run, states, rule.channels()};
  states.of(kept.state)[states.layout.row_at(position) + std::size_t(i)] =
      i < rule.channels() ? rows.channels_of(position)[i]
                          : rows.rates_of(position)[i - rule.channels()];
}

/// Normalises and gates rows, one block for each part of a row that is normalised.
__global__ void norm_and_gate(Tensor x, Tensor gates, GatedNorm norm) {
  ptx::await_previous();
  const int first = int(blockIdx.x) * norm.width;
  float* const part = x.row(int(blockIdx.y)) + first;
  const float* const gate = gates.row(int(blockIdx.y)) + first;
  const float* const weight = norm.weight + (norm.gates_first ? first : 0);
  const auto silu = [&](int i) { return gate[i] * sigmoid(gate[i]); };
  float squares = 0;
  for (int i = int(threadIdx.x); i < norm.width; i += int(blockDim.x)) {
    if (norm.gates_first)
      part[i] *= silu(i);
    squares = fmaf(part[i], part[i], squares);
  }
  squares = block_reduce(squares, Add(), &ptx::shared_memory<float>());
  const float factor = 1 / sqrtf(squares / float(norm.width) + norm.epsilon);
  for (int i = int(threadIdx.x); i < norm.width; i += int(blockDim.x))
    part[i] = part[i] * factor * weight[i] * (norm.gates_first ? 1 : silu(i));
}

} // namespace

cudaError_t recurrence(const Queue& queue, Tensor out, Tensor in, Tensor rates,
                       const Recurrence& rule, const StateRun* runs, int count,
                       const States& states, bool snapshots) {
  const int wanted = std::max(rule.key_dim, rule.value_dim);
  const int threads = divide_up(wanted, warp_lanes) * warp_lanes;
  const std::size_t shared =
      sizeof(float) * std::size_t(block_warps_max + 2 * rule.key_dim + states.layout.head_floats);
  if (threads > block_warps_max * warp_lanes || shared > shared_bytes_most)
    return cudaErrorInvalidValue;
  if (const cudaError_t refused =
          launch(queue, dim3(unsigned(rule.value_heads), unsigned(count)), threads, shared,
                 advance_states, out, in, rates, rule, runs, states))
    return refused;
  const auto blocks = unsigned(divide_up(states.layout.row_floats, keep_threads));
  const auto keep = [&](bool of_snapshots) {
    const auto most = unsigned(of_snapshots ? rule.taps : states.layout.kept);
    return launch(queue, dim3(blocks, most, unsigned(count)), keep_threads, 0, keep_rows, in, rates,
                  rule, runs, states, of_snapshots);
  };
  if (const cudaError_t refused = snapshots ? keep(true) : cudaSuccess)
    return refused;
  return keep(false);
}

cudaError_t gated_rms_norm(const Queue& queue, Tensor x, Tensor gates, const GatedNorm& norm) {
  const int threads = std::min(divide_up(norm.width, warp_lanes), block_warps_max) * warp_lanes;
  return launch(queue, dim3(unsigned(x.cols / norm.width), unsigned(x.rows)), threads,
                sizeof(float) * block_warps_max, norm_and_gate, x, gates, norm);
}

} // namespace paceline::gpu::cuda::kernels
