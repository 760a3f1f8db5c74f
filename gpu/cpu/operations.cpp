#include "gpu/cpu/operations.hpp"

#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <functional>
#include <limits>

namespace paceline::gpu::cpu {
namespace {

// Up to this many rows, every rank stages all inputs for itself, which is cheaper than a barrier.
constexpr int private_rows_max = row_block;
// Sizes of the shortest runs of tiles. For few rows: as many tiles as fit run_bytes, so that the
// wait for the last run is short, but at most the four that AMX multiplies together, and always so
// many if they are decoded in registers. For many rows: whole panels of two tiles (AMX) or three.
constexpr std::size_t run_bytes = 64 << 10;
constexpr int tiles_together = 4;
constexpr int panels_of_many_rows = 12;

const PackedWeight& packed(const Weight& w) {
  assert(dynamic_cast<const PackedWeight*>(&w) && "a weight of another device");
  return static_cast<const PackedWeight&>(w);
}

/// Adds a weight's bias to outputs [first, last) of every row.
void add_bias(Tensor out, const PackedWeight& w, int first, int last) {
  for (int r = 0; r < out.rows; ++r)
    for (int o = first; o < last; ++o)
      out.row(r)[o] += w.bias()[o];
}

/// Sums numbers [first, first + count) of a row of all parts, part by part.
void sum_run(float* out, std::span<const Tensor> parts, int row, int first, int count, bool add) {
  std::array<float, element_run> sum;
  std::copy_n(parts.front().row(row) + first, count, sum.begin());
  for (const Tensor& part : parts.subspan(1))
    std::transform(sum.begin(), sum.begin() + count, part.row(row) + first, sum.begin(),
                   std::plus());
  if (add)
    std::transform(out, out + count, sum.begin(), out, std::plus());
  else
    std::copy_n(sum.begin(), count, out);
}

KvHead kv_head(const KvLayer& cache, std::span<const std::uint32_t> pages, int head) {
  const KvLayout& layout = cache.layout;
  return {cache.pool,
          pages,
          layout.offset(cache.layer, 0, head),
          layout.offset(cache.layer, 1, head),
          layout.page_tokens,
          layout.head_dim,
          layout.type};
}

/// Returns how many rows from `first` on belong to the same sequence.
int rows_of_sequence(const RowMap& rows, int first) {
  const auto begin = rows.sequence.begin() + first;
  const auto other = [&](std::int32_t sequence) { return sequence != *begin; };
  return int(std::find_if(begin, rows.sequence.end(), other) - begin);
}

} // namespace

int shortest_run(const PackedWeight& w, int rows) {
  if (rows > row_block)
    return panels_of_many_rows;
  if (w.format() > WeightFormat::bf16)
    return tiles_together;
  return std::clamp(int(run_bytes / w.tile_bytes()), 1, tiles_together);
}

TileRun TileQueue::take(int tiles, int ranks, int least, int spare) {
  int first = next_.load(std::memory_order_relaxed);
  for (;;) {
    const int left = tiles - first;
    const int part = ranks == 1 ? left : left / (2 * ranks) / least * least;
    const int count = std::min(left, std::max(part, least));
    if (left <= 0 || left - count < spare)
      return {};
    if (next_.compare_exchange_weak(first, first + count, std::memory_order_relaxed))
      return {first, first + count};
  }
}

CpuOperations::Share CpuOperations::share(int items) const {
  const auto cut = [&](int rank) { return int(std::int64_t(items) * rank / team_.ranks); };
  return {cut(rank_), cut(rank_ + 1)};
}

void CpuOperations::embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
                          float scale) {
  const PackedWeight& w = packed(table);
  assert(out.rows == int(tokens.size()) && out.cols == w.inputs());
  const Share rows = share(out.rows);
  for (int r = rows.begin; r < rows.end; ++r) {
    const TokenId token = tokens[std::size_t(r)];
    if (token >= 0 && token < w.outputs())
      w.read_output(token, out.row(r));
    else
      std::fill_n(out.row(r), out.cols, 0.0f);
    for (int i = 0; scale != 1 && i < out.cols; ++i)
      out.row(r)[i] *= scale;
  }
  barrier();
}

void CpuOperations::embed_add(Tensor out, const Weight& table, std::span<const std::int32_t> ids) {
  const PackedWeight& w = packed(table);
  assert(out.rows == int(ids.size()) && out.cols == w.inputs());
  embedded_.resize(std::size_t(out.cols));
  const Share rows = share(out.rows);
  for (int r = rows.begin; r < rows.end; ++r) {
    const std::int32_t id = ids[std::size_t(r)];
    if (id < 0 || id >= w.outputs())
      continue;
    w.read_output(id, embedded_.data());
    std::transform(out.row(r), out.row(r) + out.cols, embedded_.data(), out.row(r), std::plus());
  }
  barrier();
}

void CpuOperations::rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) {
  assert(out.rows == in.rows && out.cols == in.cols);
  const Share rows = share(in.rows);
  for (int r = rows.begin; r < rows.end; ++r)
    team_.kernels.rms_norm(out.row(r), in.row(r), weight, in.cols, epsilon);
  barrier();
}

void CpuOperations::rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon,
                                 float scale) {
  assert(out.rows == in.rows && out.cols == in.cols);
  normed_.resize(std::size_t(in.cols));
  const Share rows = share(in.rows);
  for (int r = rows.begin; r < rows.end; ++r) {
    team_.kernels.rms_norm(normed_.data(), in.row(r), weight, in.cols, epsilon);
    std::transform(out.row(r), out.row(r) + out.cols, normed_.data(), out.row(r),
                   [scale](float x, float normed) { return scale * (x + normed); });
  }
  barrier();
}

void CpuOperations::layer_norm(Tensor out, Tensor in, const float* weight, const float* bias,
                               float epsilon) {
  assert(out.rows == in.rows && out.cols == in.cols);
  const Share rows = share(in.rows);
  for (int r = rows.begin; r < rows.end; ++r)
    team_.kernels.layer_norm(out.row(r), in.row(r), weight, bias, in.cols, epsilon);
  barrier();
}

void CpuOperations::linear(Tensor out, Tensor in, const Weight& w) {
  product(out, in, w, false);
}

void CpuOperations::linear_add(Tensor out, Tensor in, const Weight& w) {
  product(out, in, w, true);
}

void CpuOperations::product(Tensor out, Tensor in, const Weight& weight, bool add) {
  for_each_part(weight, [&](const Weight& part, int first) {
    part_product(out.columns(first, part.outputs()), in, packed(part), add);
  });
}

void CpuOperations::part_product(Tensor out, Tensor in, const PackedWeight& w, bool add) {
  assert(out.rows == in.rows && in.cols == w.inputs() && out.cols >= w.outputs());
  const std::byte* staged = stage(in, w);
  for_runs_of_tiles(w.tiles(), shortest_run(w, out.rows),
                    [&](TileRun run) { multiply(out, staged, w, run, add); });
}

TileQueue& CpuOperations::next_queue() {
  TileQueue& queue = team_.tiles[products_++ % 2];
  if (rank_ == 0) // Safe: barriers end the other queue's last product and come before its next.
    team_.tiles[products_ % 2].restart();
  return queue;
}

void CpuOperations::multiply(Tensor out, const std::byte* staged, const PackedWeight& w,
                             TileRun run, bool add) {
  if (out.rows > 0)
    team_.kernels.linear(out, staged, w, run, add, scratch_);
  if (w.bias())
    add_bias(out, w, run.first * tile_outputs, std::min(run.last * tile_outputs, w.outputs()));
}

const std::byte* CpuOperations::stage(Tensor in, const PackedWeight& w) {
  const Kernels& kernels = team_.kernels;
  if (in.rows <= private_rows_max || team_.ranks == 1) {
    std::byte* staged = staged_.at_least(kernels.staged_bytes(in.rows, w));
    kernels.stage(staged, in, w, 0, in.rows);
    return staged;
  }
  if (rank_ == 0)
    team_.staged.at_least(kernels.staged_bytes(in.rows, w));
  barrier();
  std::byte* staged = team_.staged.at_least(0);
  const Share blocks = share((in.rows + row_block - 1) / row_block);
  kernels.stage(staged, in, w, std::min(blocks.begin * row_block, in.rows),
                std::min(blocks.end * row_block, in.rows));
  barrier();
  return staged;
}

void CpuOperations::rope_store(Tensor qkv, int heads, const RopeTable& rope, const HeadNorms& norms,
                               const RowMap& rows, const KvLayer& cache) {
  const KvLayout& layout = cache.layout;
  const int dim = layout.head_dim;
  const int units = qkv.cols / dim;
  const int turning = std::min(units, heads + layout.kv_heads);
  assert(qkv.rows == rows.rows() && (units == heads || units == heads + 2 * layout.kv_heads) &&
         2 * rope.cos.cols <= dim);
  const Share items = share(qkv.rows * units);
  for (int item = items.begin; item < items.end; ++item) {
    const int r = item / units;
    const int unit = item % units;
    const int position = rows.position[std::size_t(r)];
    float* head = qkv.row(r) + unit * dim;
    const float* norm = unit < heads ? norms.query : unit < turning ? norms.key : norms.value;
    if (norm)
      team_.kernels.rms_norm(head, head, norm, dim, norms.epsilon);
    if (rope.cos.cols > 0 && unit < turning)
      team_.kernels.rotate(head, rope.cos.row(position), rope.sin.row(position), rope.cos.cols);
    if (unit < heads)
      continue;
    const auto store = [&](std::int32_t sequence) {
      const auto pages = rows.pages[std::size_t(sequence)];
      const KvHead kv = kv_head(cache, pages, (unit - heads) % layout.kv_heads);
      if (unit < turning)
        store_key(kv, position, head);
      else
        store_value(kv, position, head);
    };
    store(rows.sequence[std::size_t(r)]);
    for (const RowMap::Copy& copy :
         std::ranges::equal_range(rows.copies, r, {}, &RowMap::Copy::row))
      store(copy.sequence);
  }
  barrier();
}

void CpuOperations::attention(Tensor out, Tensor qkv, int heads, const AttentionOptions& options,
                              const RowMap& rows, const KvLayer& cache) {
  const KvLayout& layout = cache.layout;
  const int group = heads / layout.kv_heads;
  const int columns = group * layout.head_dim;
  assert(out.rows == rows.rows() && out.cols == heads * layout.head_dim &&
         heads % layout.kv_heads == 0);
  const Share mine = share(out.rows * heads);
  // Items are counted by sequence and then by kv head, so that those that read the same keys follow
  // one another. In a prompt every rank gets early rows and late rows, which read more.
  int begin = 0;
  for (int first = 0, count = 0; first < out.rows; first += count) {
    const int sequence = rows.sequence[std::size_t(first)];
    count = rows_of_sequence(rows, first);
    const auto positions = std::span(rows.position).subspan(std::size_t(first), std::size_t(count));
    for (int head = 0; head < layout.kv_heads; ++head, begin += count * group) {
      const Share here{std::max(mine.begin - begin, 0), std::min(mine.end - begin, count * group)};
      if (here.begin < here.end)
        attend(out.slice(first, count).columns(head * columns, columns),
               qkv.slice(first, count).columns(head * columns, columns), here, positions,
               options.from_head(head * group),
               kv_head(cache, rows.pages[std::size_t(sequence)], head));
    }
  }
  barrier();
}

void CpuOperations::attend(Tensor out, Tensor q, Share heads,
                           std::span<const std::int32_t> positions, const AttentionOptions& options,
                           const KvHead& kv) {
  const int group = out.cols / kv.head_dim;
  for (int at = heads.begin, count = 0; at < heads.end; at += count) {
    const int row = at / group;
    const int head = at % group;
    const int whole_rows = head == 0 ? (heads.end - at) / group : 0;
    const int height = std::max(whole_rows, 1);
    const int width = whole_rows > 0 ? group : std::min(group - head, heads.end - at);
    count = height * width;
    const auto part = [&](Tensor t) {
      return t.slice(row, height).columns(head * kv.head_dim, width * kv.head_dim);
    };
    team_.kernels.attend(part(out), part(q),
                         positions.subspan(std::size_t(row), std::size_t(height)),
                         options.from_head(head), kv, scratch_);
  }
}

void CpuOperations::gate(Tensor out, Tensor in, const Gating& gating) {
  assert(out.rows == in.rows && in.cols == 2 * out.cols);
  for_runs(out, [&](int r, int first, int count) {
    team_.kernels.gate(out.row(r) + first, in.row(r) + first, in.row(r) + out.cols + first, count,
                       gating);
  });
}

void CpuOperations::activate(Tensor out, Tensor in, Activation activation) {
  assert(out.rows == in.rows && out.cols == in.cols);
  assert(activation != Activation::clamped_silu);
  for_runs(out, [&](int r, int first, int count) {
    team_.kernels.activate(out.row(r) + first, in.row(r) + first, count, activation);
  });
}

void CpuOperations::soft_cap(Tensor x, float cap) {
  for_runs(x, [&](int r, int first, int count) {
    team_.kernels.soft_cap(x.row(r) + first, count, cap);
  });
}

void CpuOperations::sum(Tensor out, std::span<const Tensor> parts, bool add) {
  for_runs(out, [&](int r, int first, int count) {
    sum_run(out.row(r) + first, parts, r, first, count, add);
  });
}

void CpuOperations::gather(Tensor out, Tensor in, std::span<const std::int32_t> rows) {
  assert(out.rows == int(rows.size()) && out.cols == in.cols);
  const Share items = share(out.rows);
  for (int r = items.begin; r < items.end; ++r)
    std::copy_n(in.row(rows[std::size_t(r)]), in.cols, out.row(r));
  barrier();
}

void CpuOperations::scatter(Tensor out, Tensor in, std::span<const std::int32_t> rows) {
  assert(in.rows == int(rows.size()) && out.cols == in.cols);
  const Share items = share(in.rows);
  for (int r = items.begin; r < items.end; ++r)
    std::copy_n(in.row(r), in.cols, out.row(rows[std::size_t(r)]));
  barrier();
}

void CpuOperations::gather_columns(Tensor out, Tensor in, const float* columns) {
  assert(out.rows == in.rows);
  const Share items = share(out.cols);
  for (int r = 0; r < out.rows; ++r)
    for (int i = items.begin; i < items.end; ++i)
      out.row(r)[i] =
          columns[i] < 0 ? -std::numeric_limits<float>::infinity() : in.row(r)[int(columns[i])];
  barrier();
}

void CpuOperations::copy_pages(const KvPool& pool, std::span<const PageCopy> pages) {
  const Share items = share(int(pages.size()));
  for (const PageCopy& copy :
       pages.subspan(std::size_t(items.begin), std::size_t(items.end - items.begin)))
    std::memcpy(pool.page(copy.to), pool.page(copy.from), pool.shape().page_bytes());
  barrier();
}

} // namespace paceline::gpu::cpu
