// Mixtures of experts on a team of CPU threads.
#include "gpu/cpu/operations.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

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

/// Returns the first expert behind `last`; if the others are no numbers, `fallback`.
int next_expert(const float* scores, int experts, const Scored& last, int fallback) {
  Scored best{0, -1};
  for (int e = 0; e < experts; ++e) {
    const Scored each{scores[e], e};
    if (last.before(each) && (best.expert < 0 || each.before(best)))
      best = each;
  }
  return best.expert < 0 ? fallback : best.expert;
}

void choose(const Routing& routing, int row, const float* scores, const RouterOptions& options) {
  std::int32_t* const chosen = routing.chosen + std::ptrdiff_t(row) * routing.top_k;
  float* const weights = routing.weights + std::ptrdiff_t(row) * routing.top_k;
  Scored last;
  for (int k = 0; k < routing.top_k; ++k) {
    chosen[k] = next_expert(scores, routing.experts, last, k);
    last = {scores[chosen[k]], chosen[k]};
  }
  const float highest = scores[chosen[0]];
  float total = 0;
  for (int e = 0; e < routing.experts; ++e)
    total += std::exp(scores[e] - highest);
  float sum = 0;
  for (int k = 0; k < routing.top_k; ++k)
    sum += weights[k] = std::exp(scores[chosen[k]] - highest) / total;
  for (int k = 0; options.normalised && k < routing.top_k; ++k)
    weights[k] /= sum;
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

void CpuOperations::route(const Routing& routing, Tensor scores, const RouterOptions& options) {
  assert(scores.rows == routing.rows && scores.cols == routing.experts &&
         routing.top_k <= routing.experts);
  const Share rows = share(routing.rows);
  for (int r = rows.begin; r < rows.end; ++r)
    choose(routing, r, scores.row(r), options);
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
  if (const auto* stacked = dynamic_cast<const StackedWeight*>(&weight)) {
    int first = 0;
    for (const auto& part : stacked->parts()) {
      list_expert_parts(static_cast<const PackedWeight&>(*part), first, out.cols, routing);
      first += part->outputs();
    }
  } else {
    list_expert_parts(static_cast<const PackedWeight&>(weight), 0, out.cols, routing);
  }
  TileQueue& queue = next_queue();
  const int tiles = expert_parts_.empty() ? 0 : expert_parts_.back().end;
  const int rows_each = expert_parts_.empty() ? 1 : out.rows / int(expert_parts_.size());
  const int least = tiles == 0 ? 1 : shortest_run(*expert_parts_.front().weight, rows_each);
  const ExpertPart* staged = nullptr;
  for (;;) {
    const auto [first, last] = queue.take(tiles, team_.ranks, least);
    if (first == last)
      break;
    for (const ExpertPart& part : expert_parts_) {
      if (part.end <= first || part.begin >= last)
        continue;
      if (staged != &part)
        stage_expert(in, order, part, routing);
      staged = &part;
      multiply_expert(out, part, std::max(first, part.begin), std::min(last, part.end), routing);
    }
  }
  barrier();
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

/// Multiplies the rows that were staged by tiles [first, last) of all parts' tiles.
void CpuOperations::multiply_expert(Tensor out, const ExpertPart& part, int first, int last,
                                    const Routing& routing) {
  const int slot = routing.first[part.expert];
  const int rows = routing.first[part.expert + 1] - slot;
  const int first_tile = part.first_tile + first - part.begin;
  const int last_tile = part.first_tile + last - part.begin;
  // Kernels write the column that is the output's number in the weight.
  const Tensor own =
      out.slice(slot, rows)
          .columns(part.column - part.first_tile * tile_outputs, part.weight->outputs());
  multiply(own, staged_.at_least(0), *part.weight, first_tile, last_tile, false);
}

void CpuOperations::combine(Tensor out, Tensor in, const Routing& routing, bool add) {
  assert(out.rows == routing.rows && in.rows == routing.picks() && out.cols == in.cols);
  const int runs = (out.cols + element_run - 1) / element_run;
  const Share items = share(out.rows * runs);
  for (int item = items.begin; item < items.end; ++item) {
    const int r = item / runs;
    const int first = item % runs * element_run;
    const int count = std::min(element_run, out.cols - first);
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
  }
  barrier();
}

} // namespace paceline::gpu::cpu
