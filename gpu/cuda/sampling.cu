// Warping, drawing, judging and scoring: one block per row. sampling/ specifies the results; the
// scalar core of the rules and Philox are the same source.
#include "gpu/cuda/row.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int threads_max = 1024;

using sampling::DrawKey;
using sampling::Purpose;

__device__ DrawKey key_of(const Noise& noise, std::uint32_t position, Purpose purpose,
                          std::uint32_t attempt = 0) {
  return {noise.seed, noise.choice, position, attempt, purpose};
}

__device__ bool greedy(const WarpRow& task) {
  return task.warping.temperature == 0;
}

// ---- Warping -----------------------------------------------------------------------------------

__device__ int history_size(const History& h) {
  return h.committed_count + h.prefix_count + h.judged_count;
}
__device__ std::int32_t history_token(const History& h, int i) {
  if (i < h.committed_count)
    return h.committed[i];
  i -= h.committed_count;
  return i < h.prefix_count ? h.prefix[i] : h.judged[i - h.prefix_count];
}

/// Adds biases. Of several biases of one token, the first one's thread adds all, in order.
__device__ void add_biases(const WarpRow& task) {
  const Warping& w = task.warping;
  for (int b = int(threadIdx.x); b < w.bias_count; b += int(blockDim.x)) {
    const std::int32_t token = w.biases[b].token;
    bool is_first = token >= 0 && token < task.vocabulary;
    for (int other = 0; other < b && is_first; ++other)
      is_first = w.biases[other].token != token;
    for (int other = b; is_first && other < w.bias_count; ++other)
      if (w.biases[other].token == token && task.adjusted[token] != -INFINITY) {
        task.adjusted[token] = lower_of(task.adjusted[token] + w.biases[other].value, greatest);
      }
  }
}

/// Calls function(token, in_output) for all of the history's tokens, divided among the threads.
template <class Function>
__device__ void each_of_history(const WarpRow& task, Function function) {
  const History& h = task.history;
  for (int i = int(threadIdx.x); i < history_size(h); i += int(blockDim.x))
    if (const std::int32_t token = history_token(h, i); token >= 0 && token < task.vocabulary)
      function(token, i >= h.prompt_tokens);
}

__device__ void penalise(const WarpRow& task) {
  constexpr std::uint32_t done = ~0u;
  const Warping& w = task.warping;
  each_of_history(task, [&](std::int32_t token, bool) { // Several threads may have one token.
    atomicExch(&task.counts[token], 0u);
  });
  __syncthreads();
  each_of_history(task, [&](std::int32_t token, bool in_output) {
    if (in_output)
      atomicAdd(&task.counts[token], 1u);
  });
  __syncthreads();
  each_of_history(task, [&](std::int32_t token, bool) {
    const std::uint32_t count = atomicExch(&task.counts[token], done);
    if (count == done)
      return; // Done by another thread.
    float& x = task.adjusted[token];
    x = x > 0 ? x / w.repetition_penalty : x * w.repetition_penalty;
    if (count > 0)
      x -= w.presence_penalty + w.frequency_penalty * float(count);
    x = lower_of(x, greatest);
  });
}

__device__ bool allows(const Warping& w, int token) {
  return !w.allowed || (w.allowed[token / 32] >> (token % 32) & 1u) != 0;
}

/// Returns the logits with bias, masks and penalties.
__device__ Row adjusted(const WarpRow& task, RowShared& shared) {
  const Row plain(task.logits, task.vocabulary, shared);
  if (!task.adjusted)
    return plain;
  plain.each([&](int i, float x) {
    task.adjusted[i] = isnan(x) || allows(task.warping, i) ? x : -INFINITY;
  });
  __syncthreads();
  add_biases(task);
  __syncthreads();
  if (task.counts) {
    penalise(task);
    __syncthreads();
  }
  return {task.adjusted, task.vocabulary, shared};
}

/// Turns what is kept into shares: exponentials, divided by their sum.
__device__ void soften(const Row& row, sampling::row::Exponential e, float min_p, const Cut& cut,
                       float* probabilities) {
  double mine = 0;
  row.each([&](int i, float x) {
    const float weight = cut.keeps(i, x) ? weight_of(x, e) : 0.0f;
    probabilities[i] = weight >= min_p ? weight : 0.0f;
    mine += double(probabilities[i]);
  });
  const auto factor = float(1 / row.total(mine));
  const Row weights(probabilities, row.size(), row.shared());
  weights.each([&](int i, float weight) { probabilities[i] = weight * factor; });
}

/// A row's warped distribution, once warp_row() has made it.
struct Warped {
  bool failed = false;
  std::int32_t likeliest = -1; ///< The token that has all mass (greedy), else -1.
};

__device__ Warped warp_row(const WarpRow& task, const Row& row) {
  const float highest = row.highest();
  if (highest != highest || highest == -INFINITY || task.vocabulary > vocabulary_max)
    return {true, -1};
  const Warping& w = task.warping;
  if (greedy(task)) {
    Scored mine{0, -1};
    row.each([&](int i, float x) {
      if (x == highest)
        mine = First()(mine, {0, i});
    });
    const std::int32_t likeliest = row.first(mine).id;
    row.each([&](int i, float) { task.probabilities[i] = i == likeliest ? 1.0f : 0.0f; });
    __syncthreads();
    return {false, likeliest};
  }
  const sampling::row::Exponential e{highest, lower_of(1 / w.temperature, greatest)};
  Cut cut;
  Pool pool(row);
  const bool by_rank = w.top_k > 0 && w.top_k < row.size();
  if (by_rank)
    cut = top_k_cut(row, pool, w.top_k);
  if (w.top_p < 1)
    cut = top_p_cut(row, pool, w.top_p, e, cut, by_rank);
  soften(row, e, lower_of(w.min_p, 1.0f), cut, task.probabilities);
  __syncthreads();
  return {false, -1};
}

__global__ void __launch_bounds__(threads_max)
    warp_rows(const WarpRow* rows, std::int32_t* failed) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  const WarpRow& task = rows[blockIdx.x];
  const Warped warped = warp_row(task, adjusted(task, shared));
  if (threadIdx.x == 0)
    failed[blockIdx.x] = warped.failed;
}

// ---- Proposals ---------------------------------------------------------------------------------

/// Number of contenders of a draw with noise; sampling/guess.cpp says why.
constexpr int contenders = 64;

__device__ void guess(const ProposeRow& task, const Row& row, std::int32_t drafted,
                      ProposeResult& result) {
  const bool noisy = task.rule == Rule::coupled && !greedy(task.row);
  const double scale = greedy(task.row) ? 1 : 1 / double(task.row.warping.temperature);
  const DrawKey key = key_of(task.noise, task.position, Purpose::coupled);
  const auto score_of = [&](int i, float x) {
    const double score = double(x) * scale;
    return noisy ? score - log(sampling::exponential(key, std::uint32_t(i))) : score;
  };
  Cut cut;
  Pool pool(row);
  if (noisy && contenders < row.size())
    cut = top_k_cut(row, pool, contenders);
  const double own = score_of(drafted, row[drafted]);
  const int count = first_of(
      row, sampling::limits::guesses_max,
      [&](int i, float x) {
        const bool contends = i != drafted && x > -INFINITY && cut.keeps(i, x);
        return contends ? Scored{score_of(i, x), i} : Scored{0, -1};
      },
      [&](int place, Scored who) {
        if (threadIdx.x != 0)
          return;
        result.guesses[place] = who.id;
        if (place == 0)
          result.margin = float(own - who.score);
      });
  if (threadIdx.x == 0) {
    result.guess_count = count;
    if (count == 0)
      result.margin = INFINITY;
  }
}

/// Copies the row to q. Each thread copies the tokens whose shares it wrote itself.
__device__ void leave_row(const ProposeRow& task, RowShared& shared) {
  if (!task.q)
    return;
  const Row row(task.row.probabilities, task.row.vocabulary, shared);
  if (task.q != task.row.probabilities)
    row.each([&](int i, float share) { task.q[i] = share; });
  for (int i = row.size() + int(threadIdx.x); i < task.q_size; i += int(blockDim.x))
    task.q[i] = 0;
}

__global__ void __launch_bounds__(threads_max)
    propose_rows(const ProposeRow* rows, ProposeResult* results) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  const ProposeRow& task = rows[blockIdx.x];
  ProposeResult& result = results[blockIdx.x];
  const Row row = adjusted(task.row, shared);
  const Warped warped = warp_row(task.row, row);
  if (threadIdx.x == 0) {
    result.failed = warped.failed;
    result.guess_count = 0;
  }
  if (warped.failed)
    return;
  leave_row(task, shared);
  const float* q = task.row.probabilities;
  std::int32_t token = warped.likeliest;
  if (token < 0 && task.rule == Rule::coupled)
    token =
        draw_gumbel_max(q, row.size(), key_of(task.noise, task.position, Purpose::coupled), shared);
  else if (token < 0)
    token = draw(q, row.size(), key_of(task.noise, task.position, Purpose::draft, task.attempt),
                 shared);
  if (threadIdx.x == 0)
    result.token = token;
  if (task.guesses_wanted)
    guess(task, row, token, result);
}

// ---- Log-probabilities -------------------------------------------------------------------------

/// Computes log-probabilities. log_of(score): that of a token with this score. row: the scores, by
/// which tokens rank.
template <class LogOf>
__device__ void describe(const Row& row, std::int32_t token, int top, LogOf log_of,
                         Logprob& result) {
  const int count = first_of(
      row, lower_of(top, sampling::limits::top_logprobs_max),
      [&](int i, float x) {
        const bool possible = log_of(x) > -INFINITY;
        return possible ? Scored{double(x), i} : Scored{0, -1};
      },
      [&](int place, Scored who) {
        if (threadIdx.x != 0)
          return;
        result.top_tokens[place] = who.id;
        result.top[place] = log_of(float(who.score));
      });
  if (threadIdx.x != 0)
    return;
  result.top_count = count;
  result.token = token >= 0 && token < row.size() ? log_of(row[token]) : -INFINITY;
}

__device__ void raw_logprob(const float* logits, int vocabulary, std::int32_t token, int top,
                            Logprob& result, RowShared& shared) {
  const Row row(logits, vocabulary, shared);
  const float highest = row.highest();
  double mine = 0;
  row.each([&](int, float x) { mine += double(weight_of(x, {highest, 1})); });
  const double log_total = log(row.total(mine));
  describe(
      row, token, top, [&](float x) { return float(double(x) - double(highest) - log_total); },
      result);
}

__device__ void warped_logprob(const float* probabilities, int vocabulary, std::int32_t token,
                               int top, Logprob& result, RowShared& shared) {
  const Row row(probabilities, vocabulary, shared);
  describe(
      row, token, top, [](float x) { return float(log(double(x))); }, result);
}

__global__ void __launch_bounds__(threads_max) score_rows(const ScoreRow* rows, Logprob* results) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  const ScoreRow& task = rows[blockIdx.x];
  raw_logprob(task.logits, task.vocabulary, task.token, task.top, results[blockIdx.x], shared);
}

// ---- Judging -----------------------------------------------------------------------------------

struct Judged {
  bool accepted;
  std::int32_t token;
};

/// Makes the target's own draw.
__device__ std::int32_t follow(const VerifyRow& task, const Warped& warped, RowShared& shared) {
  if (warped.likeliest >= 0)
    return warped.likeliest;
  const float* p = task.row.probabilities;
  if (task.rule == Rule::coupled)
    return draw_gumbel_max(p, task.row.vocabulary,
                           key_of(task.noise, task.position, Purpose::coupled), shared);
  return draw(p, task.row.vocabulary, key_of(task.noise, task.position, Purpose::target), shared);
}

__device__ Judged judge_rejection(const VerifyRow& task, RowShared& shared) {
  const DrawKey key = key_of(task.noise, task.position, Purpose::residual);
  const float* p = task.row.probabilities;
  const int size = task.row.vocabulary;
  const std::int32_t token = task.token;
  if (token < 0 || token >= size || !task.q)
    return {false, draw(p, size, key, shared)}; // The token is not one that q could have drawn.
  const double u = sampling::uniform(key_of(task.noise, task.position, Purpose::accept));
  if (sampling::accepts(u, p[token], task.q[token]))
    return {true, token};
  const std::int32_t instead =
      invert(ResidualRow{p, task.q, shared.inversion}, size, sampling::uniform(key), shared);
  return {false, instead >= 0 ? instead : draw(p, size, key, shared)};
}

/// Does sampling::is_draw with a block.
__device__ bool is_draw(const VerifyRow& task, RowShared& shared) {
  const int size = task.row.vocabulary;
  double sum = 0;
  double impossible = 0; // NaN is counted, too.
  for (int i = int(threadIdx.x); i < size; i += int(blockDim.x)) {
    sum += double(task.q[i]);
    impossible += task.q[i] >= 0 ? 0 : 1;
  }
  sum = block_reduce(sum, Add(), shared.sums);
  impossible = block_reduce(impossible, Add(), shared.sums);
  if (impossible > 0 || !(fabs(sum - 1) < 1e-3))
    return false;
  const DrawKey key = key_of(task.noise, task.position, Purpose::draft, task.attempt);
  return task.token == draw(task.q, size, key, shared);
}

__global__ void __launch_bounds__(threads_max)
    verify_rows(const VerifyRow* rows, VerifyResult* results) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  const VerifyRow& task = rows[blockIdx.x];
  VerifyResult& result = results[blockIdx.x];
  const bool inconsistent_draw = task.check_draw && task.q && !is_draw(task, shared);
  const Row row = adjusted(task.row, shared);
  const Warped warped = warp_row(task.row, row);
  if (threadIdx.x == 0) {
    result.inconsistent_draw = inconsistent_draw;
    result.failed = warped.failed;
  }
  if (warped.failed)
    return;
  Judged judged{};
  if (task.judges && task.rule == Rule::rejection) {
    judged = judge_rejection(task, shared);
  } else {
    const std::int32_t own = follow(task, warped, shared);
    judged = {task.judges && own == task.token, own};
  }
  if (threadIdx.x == 0) {
    result.accepted = judged.accepted;
    result.token = judged.token;
  }
  if (task.top_logprobs < 0)
    return;
  if (task.raw_logprobs)
    raw_logprob(task.row.logits, row.size(), judged.token, task.top_logprobs, result.logprob,
                shared);
  else
    warped_logprob(task.row.probabilities, row.size(), judged.token, task.top_logprobs,
                   result.logprob, shared);
}

/// Depends on the vocabulary only, since it fixes the order of sums.
int threads_for(int vocabulary) {
  constexpr int tokens_of_thread = 16;
  if (vocabulary <= 0)
    return threads_max;
  const int warps = divide_up(divide_up(vocabulary, tokens_of_thread), warp_lanes);
  return std::min(warps * warp_lanes, threads_max);
}

template <class Rows, class Results>
cudaError_t launch_rows(const Queue& queue, void (*kernel)(const Rows*, Results*), const Rows* rows,
                        int count, Results* results, int vocabulary) {
  return launch(queue, dim3(unsigned(count)), threads_for(vocabulary), sizeof(RowShared), kernel,
                rows, results);
}

} // namespace

cudaError_t warp(const Queue& queue, const WarpRow* rows, int count, std::int32_t* failed,
                 int vocabulary) {
  return launch_rows(queue, warp_rows, rows, count, failed, vocabulary);
}

cudaError_t propose(const Queue& queue, const ProposeRow* rows, int count, ProposeResult* results,
                    int vocabulary) {
  return launch_rows(queue, propose_rows, rows, count, results, vocabulary);
}

cudaError_t verify(const Queue& queue, const VerifyRow* rows, int count, VerifyResult* results,
                   int vocabulary) {
  return launch_rows(queue, verify_rows, rows, count, results, vocabulary);
}

cudaError_t score(const Queue& queue, const ScoreRow* rows, int count, Logprob* results,
                  int vocabulary) {
  return launch_rows(queue, score_rows, rows, count, results, vocabulary);
}

} // namespace paceline::gpu::cuda::kernels
