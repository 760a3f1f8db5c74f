// The recurrent layers' operations on a team of CPU threads.
#include "gpu/recurrence.hpp"

#include "gpu/cpu/operations.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

namespace paceline::gpu::cpu {
namespace {

constexpr float norm_epsilon = 1e-6f; // added to a query's and a key's squared length

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

/// Returns log(1 + exp(x)).
float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

/// A pass of one sequence through the value heads that share a key head. It owns the channels that
/// it reads and keeps, but for the rates, which each value head keeps.
class DeltaPass {
public:
  DeltaPass(const Kernels& kernels, const DeltaRule& rule, const StateRun& run,
            const StateLayer& states, Tensor out, Tensor in, Tensor rates, int key_head,
            Scratch& scratch)
      : kernels_(kernels), rule_(rule), run_(run), all_(states), layout_(states.layout), out_(out),
        in_(in), rates_(rates), key_head_(key_head), heads_(rule.value_heads / rule.key_heads),
        own_(place_of(run.state)) {
    const int widest = std::max(rule.key_dim, values());
    const std::size_t copies = std::size_t(heads_) * std::size_t(layout_.head_floats);
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
    float* at = own_.matrices;
    if (run_.begin >= 0)
      begin_with(place_of(std::uint32_t(run_.begin)));
    else if (run_.held == 0)
      std::memset(own_.matrices, 0, matrix_bytes());
    for (int p = std::min(run_.held, run_.position); p < run_.end(); ++p) {
      if (p == run_.snapshot_at)
        leave_snapshot();
      if (p == run_.certain) {
        std::memcpy(copies_, own_.matrices, matrix_bytes());
        at = copies_;
      }
      step(p, at);
    }
    if (run_.snapshot_at == run_.end())
      leave_snapshot();
    // The next pass convolves from the last row that the state holds on: it may be read again.
    const int first = std::max(run_.position, run_.certain - rule_.taps);
    assert(run_.end() - first <= layout_.kept);
    for (int p = first; p < run_.end(); ++p)
      keep(own_, p);
  }

private:
  int values() const { return heads_ * rule_.value_dim; }
  int query_column() const { return key_head_ * rule_.key_dim; }
  int key_column() const { return rule_.keys() + query_column(); }
  int value_column(int h) const {
    return 2 * rule_.keys() + rule_.value_head(key_head_, h) * rule_.value_dim;
  }

  /// A place has a state's matrices of these heads, one behind the other, and all of its rows.
  struct Place {
    float* matrices;
    float* rows;
  };
  Place place_of(std::uint32_t state) const {
    float* const first = all_.of(state);
    return {first + std::ptrdiff_t(key_head_ * heads_) * layout_.head_floats,
            first + std::ptrdiff_t(rule_.value_heads) * layout_.head_floats};
  }
  std::size_t matrix_bytes() const {
    return std::size_t(heads_) * std::size_t(layout_.head_floats) * sizeof(float);
  }
  float* row_in(const Place& place, int position) const {
    return place.rows + std::ptrdiff_t(position % layout_.kept) * layout_.row_floats;
  }
  const float* channels(int position) const {
    return position < run_.position ? row_in(own_, position) : in_.row(row_of(position));
  }
  const float* rates(int position) const {
    return position < run_.position ? row_in(own_, position) + rule_.channels()
                                    : rates_.row(row_of(position));
  }
  int row_of(int position) const { return run_.first_row + position - run_.position; }

  void step(int position, float* states) {
    const float scale = 1 / std::sqrt(float(rule_.key_dim));
    const bool changes = position >= run_.held;
    const bool gives = position >= run_.position;
    if (changes) {
      convolve(key_, position, key_column(), rule_.key_dim);
      normalise(key_, scale);
      for (int h = 0; h < heads_; ++h)
        convolve(value_ + h * rule_.value_dim, position, value_column(h), rule_.value_dim);
    }
    if (gives) {
      convolve(query_, position, query_column(), rule_.key_dim);
      normalise(query_, scale * scale);
    }
    for (int h = 0; h < heads_; ++h) {
      const int head = rule_.value_head(key_head_, h);
      float* const state = states + std::ptrdiff_t(h) * layout_.head_floats;
      if (changes) {
        const float* const rates_here = rates(position);
        const float decay =
            std::exp(rule_.speeds[head] *
                     softplus(rates_here[rule_.value_heads + head] + rule_.offsets[head]));
        kernels_.advance_delta(state, key_, rule_.key_dim, value_ + h * rule_.value_dim,
                               rule_.value_dim, decay, sigmoid(rates_here[head]));
      }
      if (gives)
        kernels_.read_delta(out_.row(row_of(position)) + head * rule_.value_dim, rule_.value_dim,
                            state, query_, rule_.key_dim);
    }
  }

  void convolve(float* to, int position, int first, int count) {
    std::fill_n(sums_, count, 0.0f);
    for (int tap = 0; tap < rule_.taps; ++tap) {
      const int from = position - rule_.taps + 1 + tap;
      if (from < 0)
        continue;
      const float* const row = channels(from) + first;
      const float* const weights = rule_.kernel + std::ptrdiff_t(tap) * rule_.channels() + first;
      for (int i = 0; i < count; ++i)
        sums_[i] += weights[i] * row[i];
    }
    kernels_.gate(to, sums_, ones_, count, {});
  }

  /// Gives a vector of key_dim numbers the length sqrt(key_dim) * scale.
  void normalise(float* x, float scale) {
    const int n = rule_.key_dim;
    std::fill_n(sums_, n, scale);
    kernels_.rms_norm(x, x, sums_, n, norm_epsilon / float(n));
  }

  /// Copies the own channels and rates of a row.
  void copy_row(float* to, const float* channels, const float* rates) const {
    for (const auto& [first, count] :
         {std::pair(query_column(), rule_.key_dim), {key_column(), rule_.key_dim}})
      std::copy_n(channels + first, count, to + first);
    for (int h = 0; h < heads_; ++h) {
      const int head = rule_.value_head(key_head_, h);
      std::copy_n(channels + value_column(h), rule_.value_dim, to + value_column(h));
      for (const int rate : {head, rule_.value_heads + head})
        to[rule_.channels() + rate] = rates[rate];
    }
  }
  void keep(const Place& place, int position) const {
    copy_row(row_in(place, position), channels(position), rates(position));
  }

  void begin_with(const Place& other) const {
    std::memcpy(own_.matrices, other.matrices, matrix_bytes());
    for (int p = std::max(0, run_.held - rule_.taps); p < run_.held; ++p)
      copy_row(row_in(own_, p), row_in(other, p), row_in(other, p) + rule_.channels());
  }
  void leave_snapshot() const {
    if (run_.snapshot < 0)
      return;
    const Place other = place_of(std::uint32_t(run_.snapshot));
    std::memcpy(other.matrices, own_.matrices, matrix_bytes());
    for (int p = std::max(0, run_.snapshot_at - rule_.taps); p < run_.snapshot_at; ++p)
      keep(other, p);
  }

  const Kernels& kernels_;
  const DeltaRule& rule_;
  const StateRun& run_;
  const StateLayer& all_;
  const StateLayout& layout_;
  Tensor out_;
  Tensor in_;
  Tensor rates_;
  const int key_head_;
  const int heads_; ///< Value heads.
  const Place own_;
  float* copies_ = nullptr; ///< Of the matrices, for the rows that may be taken back.
  float* query_ = nullptr;
  float* key_ = nullptr;
  float* value_ = nullptr;
  float* ones_ = nullptr;
  float* sums_ = nullptr;
};

} // namespace

void CpuOperations::delta_rule(Tensor out, Tensor in, Tensor rates, const DeltaRule& rule,
                               std::span<const StateRun> runs, const StateLayer& states) {
  assert(out.cols == rule.values() && in.cols == rule.channels() && rates.cols == rule.rates());
  const Share items = share(int(runs.size()) * rule.key_heads);
  for (int item = items.begin; item < items.end; ++item)
    DeltaPass(team_.kernels, rule, runs[std::size_t(item / rule.key_heads)], states, out, in, rates,
              item % rule.key_heads, scratch_)
        .run();
  barrier();
}

void CpuOperations::gated_rms_norm(Tensor x, Tensor gates, const float* weight, int width,
                                   float epsilon) {
  assert(x.rows == gates.rows && x.cols == gates.cols && x.cols % width == 0);
  const int heads = x.cols / width;
  const Share items = share(x.rows * heads);
  for (int item = items.begin; item < items.end; ++item) {
    float* const head = x.row(item / heads) + item % heads * width;
    team_.kernels.rms_norm(head, head, weight, width, epsilon);
    team_.kernels.gate(head, gates.row(item / heads) + item % heads * width, head, width, {});
  }
  barrier();
}

} // namespace paceline::gpu::cpu
