// Mixtures of experts on a team of CPU threads.
#include "gpu/cpu/operations.hpp"
#include "gpu/limits.hpp"
#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace paceline::gpu::cpu {
namespace {

/// A score and its expert, ordered: the highest score first, among equals the lowest expert. NaN
/// comes before nothing.
struct Scored {
  float score = std::numeric_limits<float>::infinity();
  int expert = -1;

  bool before(const Scored& other) const {
    return score > other.score || (score == other.score && expert < other.expert);
  }
};

/// What experts of a row are chosen by.
struct Keys {
  const float* scores;
  const float* bias;  ///< Null: none.
  std::uint32_t open; ///< A bit for each group whose experts may be chosen.
  int group;          ///< Experts of a group.

  float of(int expert) const { return bias ? scores[expert] + bias[expert] : scores[expert]; }
  bool is_open(int expert) const { return open >> (expert / group) & 1; }
};

/// Returns the first expert behind `last`; if the others are no numbers, `fallback`.
int next_expert(const Keys& keys, int experts, const Scored& last, int fallback) {
  Scored best{0, -1};
  for (int e = 0; e < experts; ++e) {
    const Scored each{keys.of(e), e};
    if (keys.is_open(e) && last.before(each) && (best.expert < 0 || each.before(best)))
      best = each;
  }
  return best.expert < 0 ? fallback : best.expert;
}

/// Returns the sum of a group's two best keys.
float group_score(const Keys& keys, int group) {
  float best[2];
  best[0] = best[1] = -std::numeric_limits<float>::infinity();
  for (int e = group * keys.group; e < (group + 1) * keys.group; ++e) {
    const float key = keys.of(e);
    if (key > best[0])
      best[1] = std::exchange(best[0], key);
    else if (key > best[1])
      best[1] = key;
  }
  return best[0] + best[1];
}

/// Returns the bits of the groups that a row may go to.
std::uint32_t open_groups(const Keys& keys, const RouterOptions& options) {
  if (options.groups_used == options.groups)
    return ~0u;
  std::array<float, limits::router_groups_max> scores;
  for (int g = 0; g < options.groups; ++g)
    scores[std::size_t(g)] = group_score(keys, g);
  std::uint32_t open = 0;
  const Keys groups{scores.data(), nullptr, ~0u, options.groups};
  Scored last;
  for (int k = 0; k < options.groups_used; ++k) {
    const int group = next_expert(groups, options.groups, last, k);
    last = {scores[std::size_t(group)], group};
    open |= 1u << group;
  }
  return open;
}

/// Sets weights of softmax to the parts that the chosen have in it.
void apply_softmax(const Routing& routing, const float* scores, float* weights) {
  const float highest = weights[0];
  float total = 0;
  for (int e = 0; e < routing.experts; ++e)
    total += std::exp(scores[e] - highest);
  for (int k = 0; k < routing.top_k; ++k)
    weights[k] = std::exp(weights[k] - highest) / total;
}

void choose(const Routing& routing, int row, float* scores, const float* bias,
            const RouterOptions& options) {
  std::int32_t* const chosen = routing.chosen + std::ptrdiff_t(row) * routing.top_k;
  float* const weights = routing.weights + std::ptrdiff_t(row) * routing.top_k;
  if (options.scores == RouterScores::sigmoid)
    std::transform(scores, scores + routing.experts, scores, sigmoid);
  Keys keys{scores, bias, ~0u, routing.experts / options.groups};
  keys.open = open_groups(keys, options);
  Scored last;
  for (int k = 0; k < routing.top_k; ++k) {
    chosen[k] = next_expert(keys, routing.experts, last, k);
    last = {keys.of(chosen[k]), chosen[k]};
    weights[k] = scores[chosen[k]];
  }
  if (options.scores == RouterScores::softmax)
    apply_softmax(routing, scores, weights);
  const float sum =
      options.normalised ? std::accumulate(weights, weights + routing.top_k, 0.0f) : 1;
  for (int k = 0; k < routing.top_k; ++k)
    weights[k] = weights[k] / (sum + router_sum_least) * options.scale *
                 (options.expert_scales ? options.expert_scales[chosen[k]] : 1);
}

/// Gives every pick its slot: a stable sort by expert.
void sort_by_expert(const Routing& routing) {
  const int picks = routing.picks();
  std::fill_n(routing.first, routing.experts + 1, 0);
  for (int pick = 0; pick < picks; ++pick)
    ++routing.first[routing.chosen[pick] + 1];
  for (int e = 0; e < routing.experts; ++e)
    routing.first[e + 1] += routing.first[e];
  // While slots are given, first[e] is the next free one of expert e: at the end first[e + 1].
  for (int pick = 0; pick < picks; ++pick) {
    const std::int32_t slot = routing.first[routing.chosen[pick]]++;
    routing.slots[pick] = slot;
    routing.picks_of[slot] = pick;
  }
  std::copy_backward(routing.first, routing.first + routing.experts,
                     routing.first + routing.experts + 1);
  routing.first[0] = 0;
}

} // namespace

void CpuOperations::route(const Routing& routing, Tensor scores, const float* bias,
                          const RouterOptions& options) {
  assert(scores.rows == routing.rows && scores.cols == routing.experts &&
         routing.top_k <= routing.experts && options.groups <= limits::router_groups_max &&
         routing.experts % options.groups == 0);
  const Share rows = share(routing.rows);
  for (int r = rows.begin; r < rows.end; ++r)
    choose(routing, r, scores.row(r), bias, options);
  barrier();
  if (rank_ == 0)
    sort_by_expert(routing);
  barrier();
}

/// Lists the parts of `w` that are read: of the experts that have rows, in their order. A weight of
/// several formats has parts of its own for an expert (StackedWeight).
void CpuOperations::list_expert_parts(const PackedWeight& w, int first_output, int outputs,
                                      const Routing& routing) {
  for (int e = first_output / outputs; e * outputs < first_output + w.outputs(); ++e) {
    const int rows = routing.first[e + 1] - routing.first[e];
    if (rows == 0)
      continue;
    const int begin = std::max(e * outputs, first_output);
    const int end = std::min((e + 1) * outputs, first_output + w.outputs());
    assert((begin - first_output) % tile_outputs == 0);
    ExpertPart part{&w, e, (begin - first_output) / tile_outputs, begin - e * outputs};
    part.begin = expert_parts_.empty() ? 0 : expert_parts_.back().end;
    part.end = part.begin + (end - begin + tile_outputs - 1) / tile_outputs;
    expert_parts_.push_back(part);
  }
}

void CpuOperations::expert_linear(Tensor out, Tensor in, RoutedRows order, const Weight& weight,
                                  const Routing& routing) {
  assert(out.rows == routing.picks() && in.cols == weight.inputs() &&
         out.cols == weight.outputs() / routing.experts);
  assert(in.rows == (order == RoutedRows::by_slot ? out.rows : routing.rows));
  expert_parts_.clear();
  for_each_part(weight, [&](const Weight& part, int first) {
    list_expert_parts(static_cast<const PackedWeight&>(part), first, out.cols, routing);
  });
  const int tiles = expert_parts_.empty() ? 0 : expert_parts_.back().end;
  const int rows_each = expert_parts_.empty() ? 1 : out.rows / int(expert_parts_.size());
  const int least = tiles == 0 ? 1 : shortest_run(*expert_parts_.front().weight, rows_each);
  const ExpertPart* staged = nullptr;
  for_runs_of_tiles(tiles, least, [&](TileRun run) {
    for (const ExpertPart& part : expert_parts_) {
      if (part.end <= run.first || part.begin >= run.last)
        continue;
      if (staged != &part)
        stage_expert(in, order, part, routing);
      staged = &part;
      const int end = std::min(run.last, part.end);
      multiply_expert(out, part, {std::max(run.first, part.begin), end, run.behind(end)}, routing);
    }
  });
}

/// Stages the rows of an expert for this rank, which takes the tiles of few experts.
void CpuOperations::stage_expert(Tensor in, RoutedRows order, const ExpertPart& part,
                                 const Routing& routing) {
  const int first = routing.first[part.expert];
  const int rows = routing.first[part.expert + 1] - first;
  Tensor own = in;
  if (order == RoutedRows::by_slot) {
    own = in.slice(first, rows);
  } else {
    const std::size_t bytes = std::size_t(rows) * std::size_t(in.cols) * sizeof(float);
    own = {reinterpret_cast<float*>(gathered_.at_least(bytes)), rows, in.cols, in.cols};
    for (int r = 0; r < rows; ++r)
      std::copy_n(in.row(routing.picks_of[first + r] / routing.top_k), in.cols, own.row(r));
  }
  std::byte* const staged = staged_.at_least(team_.kernels.staged_bytes(rows, *part.weight));
  team_.kernels.stage(staged, own, *part.weight, 0, rows);
}

/// Returns the tile of `w` that is number `tile` of all parts' tiles, or -1 if it is another one's.
int CpuOperations::tile_in(const PackedWeight& w, int tile) const {
  for (const ExpertPart& part : expert_parts_)
    if (part.weight == &w && part.begin <= tile && tile < part.end)
      return part.first_tile + tile - part.begin;
  return -1;
}

/// Multiplies the rows that were staged by a run of all parts' tiles.
void CpuOperations::multiply_expert(Tensor out, const ExpertPart& part, TileRun run,
                                    const Routing& routing) {
  const int slot = routing.first[part.expert];
  const int rows = routing.first[part.expert + 1] - slot;
  const int before = part.first_tile - part.begin;
  // Kernels write the column that is the output's number in the weight.
  const Tensor own =
      out.slice(slot, rows)
          .columns(part.column - part.first_tile * tile_outputs, part.weight->outputs());
  multiply(own, staged_.at_least(0), *part.weight,
           {run.first + before, run.last + before, tile_in(*part.weight, run.next)}, false);
}

void CpuOperations::spread(Tensor out, Tensor in, const Routing& routing) {
  assert(out.rows == routing.rows && in.rows == routing.picks() &&
         out.cols == routing.experts * in.cols);
  const Share experts = share(routing.experts);
  for (int r = 0; r < out.rows; ++r) {
    float* const to = out.row(r);
    std::fill(to + std::ptrdiff_t(experts.begin) * in.cols,
              to + std::ptrdiff_t(experts.end) * in.cols, -std::numeric_limits<float>::infinity());
    for (int pick = r * routing.top_k; pick < (r + 1) * routing.top_k; ++pick)
      if (const int e = routing.chosen[pick]; e >= experts.begin && e < experts.end)
        std::copy_n(in.row(routing.slots[pick]), in.cols, to + std::ptrdiff_t(e) * in.cols);
  }
  barrier();
}

void CpuOperations::combine(Tensor out, Tensor in, const Routing& routing, bool add) {
  assert(out.rows == routing.rows && in.rows == routing.picks() && out.cols == in.cols);
  for_runs(out, [&](int r, int first, int count) {
    std::array<float, element_run> sum{};
    for (int pick = r * routing.top_k; pick < (r + 1) * routing.top_k; ++pick) {
      const float* from = in.row(routing.slots[pick]) + first;
      const float weight = routing.weights[pick];
      for (int i = 0; i < count; ++i)
        sum[std::size_t(i)] += weight * from[i];
    }
    float* const to = out.row(r) + first;
    for (int i = 0; i < count; ++i)
      to[i] = add ? to[i] + sum[std::size_t(i)] : sum[std::size_t(i)];
  });
}

void CpuOperations::scale_by_sigmoid(Tensor x, Tensor scores) {
  assert(scores.rows == x.rows && (scores.cols == 1 || scores.cols == x.cols));
  for_runs(x, [&](int r, int first, int count) {
    const float* const score = scores.row(r);
    const float whole = scores.cols == 1 ? sigmoid(*score) : 0;
    for (int i = first; i < first + count; ++i)
      x.row(r)[i] *= scores.cols == 1 ? whole : sigmoid(score[i]);
  });
}

} // namespace paceline::gpu::cpu
