// Warping, drawing, judging and scoring: a cluster of blocks per row, or one block. sampling/
// specifies the results; the scalar core of the rules and Philox are the same source.
#include "gpu/cuda/cut.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

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
__device__ void add_biases(const WarpRow& task, const Cluster& cluster) {
  const Warping& w = task.warping;
  for (int b = cluster.thread(); b < w.bias_count; b += cluster.threads()) {
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
__device__ void each_of_history(const WarpRow& task, const Cluster& cluster, Function function) {
  const History& h = task.history;
  for (int i = cluster.thread(); i < history_size(h); i += cluster.threads())
    if (const std::int32_t token = history_token(h, i); token >= 0 && token < task.vocabulary)
      function(token, i >= h.prompt_tokens);
}

__device__ void penalise(const WarpRow& task, const Cluster& cluster) {
  constexpr std::uint32_t done = ~0u;
  const Warping& w = task.warping;
  each_of_history(task, cluster,
                  [&](std::int32_t token, bool) { // Several threads may have one token.
                    atomicExch(&task.counts[token], 0u);
                  });
  cluster.barrier();
  each_of_history(task, cluster, [&](std::int32_t token, bool in_output) {
    if (in_output)
      atomicAdd(&task.counts[token], 1u);
  });
  cluster.barrier();
  each_of_history(task, cluster, [&](std::int32_t token, bool) {
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
__device__ const float* adjusted(const WarpRow& task, RowShared& shared, Cluster& cluster) {
  if (!task.adjusted)
    return task.logits;
  Row(task.logits, task.vocabulary, shared, cluster).each([&](int i, float x) {
    task.adjusted[i] = isnan(x) || allows(task.warping, i) ? x : -INFINITY;
  });
  cluster.barrier();
  add_biases(task, cluster);
  cluster.barrier();
  if (task.counts) {
    penalise(task, cluster);
    cluster.barrier();
  }
  return task.adjusted;
}

/// Turns what is kept into shares: exponentials, divided by their sum.
__device__ void soften(const Row& row, sampling::row::Exponential e, float min_p, const Cut& cut,
                       float* probabilities) {
  Mass mine = 0;
  row.each([&](int i, float x) {
    const float weight = cut.keeps(i, x) ? weight_of(x, e) : 0.0f;
    const float kept = weight >= min_p ? weight : 0.0f;
    probabilities[i] = kept;
    mine += shares_of(kept);
  });
  const auto factor = float(1 / row.total(mine));
  const Row weights(probabilities, row.size(), row.shared(), row.cluster());
  weights.each([&](int i, float weight) { probabilities[i] = weight * factor; });
}

/// A row's warped distribution, once warp_row() has made it: each token's share has been written by
/// the thread that Row::each gives it.
struct Warped {
  bool failed = false;
  std::int32_t likeliest = -1; ///< The token that has all mass (greedy), else -1.
};

__device__ Warped warp_row(const WarpRow& task, const Row& row) {
  const Rank own = row.own_best();
  const Rank best = row.best(own);
  const float highest = value_of(best);
  if (highest != highest || highest == -INFINITY || task.vocabulary > vocabulary_max)
    return {true, -1};
  const Warping& w = task.warping;
  if (greedy(task)) {
    const std::int32_t likeliest = id_of(best);
    row.each([&](int i, float) { task.probabilities[i] = i == likeliest ? 1.0f : 0.0f; });
    return {false, likeliest};
  }
  const sampling::row::Exponential e{highest, lower_of(1 / w.temperature, greatest)};
  Cut cut;
  if (w.top_k > 0 && w.top_k < row.size())
    cut = top_k_cut(row, own, best, w.top_k);
  if (w.top_p < 1)
    cut = top_p_cut(row, w.top_p, e, cut, best);
  soften(row, e, lower_of(w.min_p, 1.0f), cut, task.probabilities);
  return {false, -1};
}

/// Prepares shared memory, once the kernel ahead has ended.
__device__ Cluster begin(RowShared& shared) {
  if (threadIdx.x == 0)
    shared.candidate_count = 0;
  return Cluster(shared.cluster);
}

/// Returns the number of the row that this block's cluster has.
__device__ unsigned row_index() {
  return blockIdx.x / ptx::cluster_blocks();
}

__global__ void __launch_bounds__(block_threads_max)
    warp_rows(const WarpRow* rows, std::int32_t* failed) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  Cluster cluster = begin(shared);
  const WarpRow& task = rows[row_index()];
  const Row row(adjusted(task, shared, cluster), task.vocabulary, shared, cluster);
  const Warped warped = warp_row(task, row);
  if (cluster.leads())
    failed[row_index()] = warped.failed;
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
    return noisy ? score - log(gumbel_score(key, i, 1)) : score;
  };
  Cut cut;
  if (noisy && contenders < row.size()) {
    const Rank best = row.own_best();
    cut = top_k_cut(row, best, row.best(best), contenders);
  }
  const double own = score_of(drafted, row[drafted]);
  const int count = first_of(
      row, sampling::limits::guesses_max,
      [&](int i, float x) {
        const bool contends = i != drafted && x > -INFINITY && cut.keeps(i, x);
        return contends ? Scored{score_of(i, x), i} : Scored{0, -1};
      },
      [&](int place, Scored who) {
        if (!row.cluster().leads())
          return;
        result.guesses[place] = who.id;
        if (place == 0)
          result.margin = float(own - who.score);
      });
  if (row.cluster().leads()) {
    result.guess_count = count;
    if (count == 0)
      result.margin = INFINITY;
  }
}

/// Copies the row to q. Each thread copies the tokens whose shares it wrote itself.
__device__ void leave_row(const ProposeRow& task, const Row& q) {
  if (!task.q)
    return;
  if (task.q != task.row.probabilities)
    q.each([&](int i, float share) { task.q[i] = share; });
  const Cluster& cluster = q.cluster();
  for (int i = q.size() + cluster.thread(); i < task.q_size; i += cluster.threads())
    task.q[i] = 0;
}

__global__ void __launch_bounds__(block_threads_max)
    propose_rows(const ProposeRow* rows, ProposeResult* results) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  Cluster cluster = begin(shared);
  const ProposeRow& task = rows[row_index()];
  ProposeResult& result = results[row_index()];
  const Row row(adjusted(task.row, shared, cluster), task.row.vocabulary, shared, cluster);
  const Warped warped = warp_row(task.row, row);
  if (cluster.leads()) {
    result.failed = warped.failed;
    result.guess_count = 0;
  }
  if (warped.failed)
    return;
  const Row q(task.row.probabilities, row.size(), shared, cluster);
  leave_row(task, q);
  std::int32_t token = warped.likeliest;
  if (token < 0 && task.rule == Rule::coupled)
    token = draw_gumbel_max(q, key_of(task.noise, task.position, Purpose::coupled));
  else if (token < 0)
    token = draw(q, key_of(task.noise, task.position, Purpose::draft, task.attempt));
  if (cluster.leads())
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
        if (!row.cluster().leads())
          return;
        result.top_tokens[place] = who.id;
        result.top[place] = log_of(float(who.score));
      });
  if (!row.cluster().leads())
    return;
  result.top_count = count;
  result.token = token >= 0 && token < row.size() ? log_of(row[token]) : -INFINITY;
}

__device__ void raw_logprob(const Row& row, std::int32_t token, int top, Logprob& result) {
  const float highest = value_of(row.best(row.own_best()));
  Mass mine = 0;
  row.each([&](int, float x) { mine += shares_of(weight_of(x, {highest, 1})); });
  const double log_total = log(row.total(mine));
  describe(
      row, token, top, [&](float x) { return float(double(x) - double(highest) - log_total); },
      result);
}

__device__ void warped_logprob(const Row& row, std::int32_t token, int top, Logprob& result) {
  row.cluster().barrier(); // Others have written shares.
  describe(
      row, token, top, [](float x) { return float(log(double(x))); }, result);
}

__global__ void __launch_bounds__(block_threads_max)
    score_rows(const ScoreRow* rows, Logprob* results) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  Cluster cluster = begin(shared);
  const ScoreRow& task = rows[row_index()];
  raw_logprob(Row(task.logits, task.vocabulary, shared, cluster), task.token, task.top,
              results[row_index()]);
}

// ---- Judging -----------------------------------------------------------------------------------

struct Judged {
  bool accepted;
  std::int32_t token;
};

/// Makes the target's own draw from its row of shares.
__device__ std::int32_t follow(const VerifyRow& task, const Warped& warped, const Row& p) {
  if (warped.likeliest >= 0)
    return warped.likeliest;
  if (task.rule == Rule::coupled)
    return draw_gumbel_max(p, key_of(task.noise, task.position, Purpose::coupled));
  return draw(p, key_of(task.noise, task.position, Purpose::target));
}

__device__ Judged judge_rejection(const VerifyRow& task, const Row& p) {
  const DrawKey key = key_of(task.noise, task.position, Purpose::residual);
  const std::int32_t token = task.token;
  if (token < 0 || token >= p.size() || !task.q)
    return {false, draw(p, key)}; // The token is not one that q could have drawn.
  const double u = sampling::uniform(key_of(task.noise, task.position, Purpose::accept));
  p.cluster().barrier(); // Another thread has written the token's share.
  if (sampling::accepts(u, p[token], task.q[token]))
    return {true, token};
  const std::int32_t instead = invert(Residual{p, task.q}, sampling::uniform(key), p);
  return {false, instead >= 0 ? instead : draw(p, key)};
}

/// Does sampling::is_draw.
__device__ bool is_draw(const VerifyRow& task, const Row& q) {
  Mass mine = 0; // What is no share (NaN, too) counts as two rows.
  q.each([&](int, float share) { mine += shares_of(share >= 0 ? lower_of(share, 2.0f) : 2.0f); });
  if (!(fabs(q.total(mine) - 1) < 1e-3))
    return false;
  return task.token == draw(q, key_of(task.noise, task.position, Purpose::draft, task.attempt));
}

__global__ void __launch_bounds__(block_threads_max)
    verify_rows(const VerifyRow* rows, VerifyResult* results) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<RowShared>();
  Cluster cluster = begin(shared);
  const VerifyRow& task = rows[row_index()];
  VerifyResult& result = results[row_index()];
  const int size = task.row.vocabulary;
  const bool inconsistent_draw =
      task.check_draw && task.q && !is_draw(task, Row(task.q, size, shared, cluster));
  const Row row(adjusted(task.row, shared, cluster), size, shared, cluster);
  const Warped warped = warp_row(task.row, row);
  if (cluster.leads()) {
    result.inconsistent_draw = inconsistent_draw;
    result.failed = warped.failed;
  }
  if (warped.failed)
    return;
  const Row p(task.row.probabilities, size, shared, cluster);
  Judged judged{};
  if (task.judges && task.rule == Rule::rejection) {
    judged = judge_rejection(task, p);
  } else {
    const std::int32_t own = follow(task, warped, p);
    judged = {task.judges && own == task.token, own};
  }
  if (cluster.leads()) {
    result.accepted = judged.accepted;
    result.token = judged.token;
  }
  if (task.top_logprobs < 0)
    return;
  if (task.raw_logprobs)
    raw_logprob(Row(task.row.logits, size, shared, cluster), judged.token, task.top_logprobs,
                result.logprob);
  else
    warped_logprob(p, judged.token, task.top_logprobs, result.logprob);
}

/// How many blocks a row has on the current device: as many as have a block of the inversion each.
int blocks_for(int vocabulary) {
  if (!runs_code_of_9())
    return 1;
  int blocks = cluster_blocks_max;
  while (blocks > 1 && vocabulary > 0 && vocabulary < blocks * int(sampling::inversion_block))
    blocks /= 2;
  return blocks;
}

int threads_for(int vocabulary, int blocks) {
  constexpr int tokens_of_thread = 16;
  const int most = blocks > 1 ? cluster_block_threads_max : block_threads_max;
  if (vocabulary <= 0)
    return most;
  const int warps = divide_up(divide_up(vocabulary, blocks * tokens_of_thread), warp_lanes);
  return std::min(warps * warp_lanes, most);
}

template <class Rows, class Results>
cudaError_t launch_rows(const Queue& queue, void (*kernel)(const Rows*, Results*), const Rows* rows,
                        int count, Results* results, int vocabulary) {
  const int blocks = blocks_for(vocabulary);
  return launch(queue, Grid(dim3(unsigned(count * blocks)), unsigned(blocks)),
                threads_for(vocabulary, blocks), sizeof(RowShared), kernel, rows, results);
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
