// The recurrent layers' operations on a team of CPU threads.
#include "gpu/recurrence.hpp"

#include "gpu/cpu/operations.hpp"
#include "gpu/cpu/run_rows.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace paceline::gpu::cpu {
namespace {

constexpr float norm_epsilon = 1e-6f; // added to a query's and a key's squared length
constexpr int heads_together = 8;     // value heads that share the work on their key head

/// Returns log(1 + exp(x)).
float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

/// The parts into which the value heads of a key head are divided.
int head_parts(const Recurrence& rule) {
  return (rule.value_heads / rule.key_heads + heads_together - 1) / heads_together;
}

/// A pass of one sequence through some value heads that share a key head. It changes their matrices
/// alone: rows are kept when all passes have read what these replace.
class HeadsPass {
public:
  /// part: of the key head's value heads.
  HeadsPass(const Kernels& kernels, const Recurrence& rule, const StateRun& run,
            const StateLayer& states, Tensor out, const RunRows& channels, const RunRows& rates,
            int key_head, int part, Scratch& scratch)
      : kernels_(kernels), rule_(rule), run_(run), states_(states), out_(out), channels_(channels),
        rates_(rates), key_head_(key_head), first_(part * heads_together),
        heads_(std::min(heads_together, rule.value_heads / rule.key_heads - first_)) {
    const int widest = std::max(rule.key_dim, values());
    const std::size_t copies = std::size_t(heads_) * head_floats();
    const std::size_t floats = copies + std::size_t(2 * rule.key_dim + values() + 2 * widest);
    copies_ = reinterpret_cast<float*>(scratch.at_least(floats * sizeof(float)));
    query_ = copies_ + copies;
    key_ = query_ + rule.key_dim;
    value_ = key_ + rule.key_dim;
    ones_ = value_ + values();
    sums_ = ones_ + widest;
    std::fill_n(ones_, widest, 1.0f);
  }

  void run() {
    float* const own = matrices(run_.state);
    float* at = own;
    if (run_.begin >= 0)
      std::memcpy(own, matrices(std::uint32_t(run_.begin)), matrix_bytes());
    else if (run_.held == 0)
      std::memset(own, 0, matrix_bytes());
    for (int p = std::min(run_.held, run_.position); p < run_.end(); ++p) {
      if (p == run_.snapshot_at)
        leave_snapshot();
      if (p == run_.certain) {
        std::memcpy(copies_, own, matrix_bytes());
        at = copies_;
      }
      step(p, at);
    }
    if (run_.snapshot_at == run_.end())
      leave_snapshot();
  }

private:
  int values() const { return heads_ * rule_.value_dim; }
  std::size_t head_floats() const { return std::size_t(states_.layout.head_floats); }
  std::size_t matrix_bytes() const { return std::size_t(heads_) * head_floats() * sizeof(float); }
  int query_column() const { return key_head_ * rule_.key_dim; }
  int key_column() const { return rule_.keys() + query_column(); }
  int head(int h) const { return rule_.value_head(key_head_, first_ + h); }
  int value_column(int h) const { return 2 * rule_.keys() + head(h) * rule_.value_dim; }

  /// Returns a state's matrices of these heads, one behind the other.
  float* matrices(std::uint32_t state) const {
    const int before = key_head_ * (rule_.value_heads / rule_.key_heads) + first_;
    return states_.of(state) + std::size_t(before) * head_floats();
  }
  void leave_snapshot() const {
    if (run_.snapshot >= 0)
      std::memcpy(matrices(std::uint32_t(run_.snapshot)), matrices(run_.state), matrix_bytes());
  }

  void step(int position, float* matrices) {
    const bool changes = position >= run_.held;
    const bool gives = position >= run_.position;
    const float scale = 1 / std::sqrt(float(rule_.key_dim));
    if (changes)
      load(key_, position, key_column(), scale);
    if (gives)
      load(query_, position, query_column(), scale * scale);
    for (int h = 0; h < heads_; ++h) {
      float* const matrix = matrices + std::size_t(h) * head_floats();
      float* const value = value_ + h * rule_.value_dim;
      if (changes || rule_.skips)
        convolve(value, position, value_column(h), rule_.value_dim);
      if (changes)
        change(matrix, value, position, head(h));
      if (gives)
        give(out_.row(channels_.row_of(position)) + head(h) * rule_.value_dim, matrix, value,
             head(h));
    }
  }

  /// Advances a head's matrix. With StateUpdate::delta its value is overwritten.
  void change(float* matrix, float* value, int position, int head) {
    const float* const rates = rates_.at(position);
    const float time = std::clamp(softplus(rates[rule_.first_time() + head] + rule_.offsets[head]),
                                  rule_.time_least, rule_.time_most);
    const float decay = std::exp(rule_.speeds[head] * time);
    if (rule_.update == StateUpdate::delta)
      return kernels_.advance_delta(matrix, key_, rule_.key_dim, value, rule_.value_dim, decay,
                                    sigmoid(rates[head]));
    for (int i = 0; i < rule_.value_dim; ++i)
      sums_[i] = value[i] * time;
    kernels_.advance_sum(matrix, key_, rule_.key_dim, sums_, rule_.value_dim, decay);
  }

  void give(float* out, const float* matrix, const float* value, int head) const {
    kernels_.read_state(out, rule_.value_dim, matrix, query_, rule_.key_dim);
    for (int i = 0; rule_.skips && i < rule_.value_dim; ++i)
      out[i] += rule_.skips[head] * value[i];
  }

  /// Puts a query or a key in `to`; with StateUpdate::delta at length sqrt(key_dim) * scale.
  void load(float* to, int position, int first, float scale) {
    const int n = rule_.key_dim;
    convolve(to, position, first, n);
    if (rule_.update != StateUpdate::delta)
      return;
    std::fill_n(sums_, n, scale);
    kernels_.rms_norm(to, to, sums_, n, norm_epsilon / float(n));
  }

  void convolve(float* to, int position, int first, int count) {
    if (rule_.bias)
      std::copy_n(rule_.bias + first, count, sums_);
    else
      std::fill_n(sums_, count, 0.0f);
    channels_.add_convolution(sums_, position, rule_.kernel, first, count);
    kernels_.gate(to, sums_, ones_, count, {});
  }

  const Kernels& kernels_;
  const Recurrence& rule_;
  const StateRun& run_;
  const StateLayer& states_;
  Tensor out_;
  const RunRows& channels_;
  const RunRows& rates_;
  const int key_head_;
  const int first_; ///< Of its value heads.
  const int heads_;
  float* copies_ = nullptr; ///< Of the matrices, for the rows that may be taken back.
  float* query_ = nullptr;
  float* key_ = nullptr;
  float* value_ = nullptr;
  float* ones_ = nullptr;
  float* sums_ = nullptr;
};

} // namespace

void CpuOperations::recurrence(Tensor out, Tensor in, Tensor rates, const Recurrence& rule,
                               std::span<const StateRun> runs, const StateLayer& states) {
  assert(out.cols == rule.values() && in.cols == rule.channels() && rates.cols == rule.rates());
  const auto with_rows = [&](const StateRun& run, const auto& use) {
    use(RunRows(states, run, in, rule.taps),
        RunRows(states, run, rates, rule.taps, rule.channels()));
  };
  const int parts = head_parts(rule);
  const int in_run = rule.key_heads * parts;
  const Share items = share(int(runs.size()) * in_run);
  for (int item = items.begin; item < items.end; ++item) {
    const StateRun& run = runs[std::size_t(item / in_run)];
    with_rows(run, [&](const RunRows& channels, const RunRows& times) {
      HeadsPass(team_.kernels, rule, run, states, out, channels, times, item % in_run / parts,
                item % parts, scratch_)
          .run();
    });
  }
  barrier();
  const Share own_channels = share(rule.channels());
  const Share own_rates = share(rule.rates());
  for (const StateRun& run : runs)
    with_rows(run, [&](const RunRows& channels, const RunRows& times) {
      channels.keep(own_channels.begin, own_channels.end);
      times.keep(own_rates.begin, own_rates.end);
    });
  barrier();
}

void CpuOperations::gated_rms_norm(Tensor x, Tensor gates, const GatedNorm& norm) {
  const int width = norm.width;
  assert(x.rows == gates.rows && x.cols == gates.cols && x.cols % width == 0);
  const int parts = x.cols / width;
  const Share items = share(x.rows * parts);
  for (int item = items.begin; item < items.end; ++item) {
    const int row = item / parts;
    const int first = item % parts * width;
    float* const part = x.row(row) + first;
    const auto gate = [&] { team_.kernels.gate(part, gates.row(row) + first, part, width, {}); };
    if (norm.gates_first)
      gate();
    const float* const weight = norm.weight + (norm.gates_first ? first : 0);
    team_.kernels.rms_norm(part, part, weight, width, norm.epsilon);
    if (!norm.gates_first)
      gate();
  }
  barrier();
}

} // namespace paceline::gpu::cpu
