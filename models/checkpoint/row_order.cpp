#include "models/checkpoint/row_order.hpp"

#include "gpu/mx.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/transpose.hpp"

#include <cstdint>
#include <cstring>

namespace paceline::models {

int RowOrder::in_file(int row) const {
  const int in_head = row % head;
  if (row < paired && in_head < rotated)
    row += 2 * (in_head % (rotated / 2)) + in_head / (rotated / 2) - in_head;
  if (parts == 1)
    return row;
  const int kind = row / third; // 0: a query's, 1: a key's, 2: a value's
  const int place = values_first && kind > 0 ? 3 - kind : kind;
  const int each = third / parts;
  const int part = row % third / each;
  return (3 * part + place) * each + row % each;
}

RowOrder row_order(TensorRole role, const ModelConfig& config, const HeadOrder& heads) {
  RowOrder order;
  order.head = config.head_dim;
  const int queries = config.heads * config.head_dim;
  const int keys = config.kv_heads * config.head_dim;
  if (heads.neighbours && !config.ropes.empty())
    order.rotated = 2 * int(config.ropes.front().frequencies.size());
  switch (role) {
  case TensorRole::query: order.paired = queries; break;
  case TensorRole::key: order.paired = keys; break;
  case TensorRole::query_key_value:
    order.paired = queries + keys;
    order.parts = heads.parts == HeadOrder::each_head ? config.heads : heads.parts;
    order.values_first = heads.values_first;
    order.third = queries;
    break;
  default: break;
  }
  return order;
}

std::byte* OrderedMatrices::keep(std::size_t bytes) {
  return copies_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
}

const std::byte* OrderedMatrices::take(const void* from, int rows, std::size_t row_bytes,
                                       const RowOrder& order) {
  const std::size_t bytes = std::size_t(rows) * row_bytes;
  std::byte* const out = keep(bytes);
  gpu::for_shares(rows, bytes, [&](int begin, int end) {
    for (int row = begin; row < end; ++row)
      std::memcpy(out + std::size_t(row) * row_bytes,
                  static_cast<const std::byte*>(from) + std::size_t(order.in_file(row)) * row_bytes,
                  row_bytes);
  });
  return out;
}

gpu::HostMatrix OrderedMatrices::ordered(const gpu::HostMatrix& stored, const RowOrder& order) {
  gpu::HostMatrix out = stored;
  out.data = take(stored.data, stored.rows, stored.row_bytes(), order);
  if (stored.block_scales)
    out.block_scales = reinterpret_cast<const std::uint8_t*>(
        take(stored.block_scales, stored.rows, std::size_t(gpu::blocks_of(stored.cols)), order));
  out.file = nullptr; // the data is our copy
  return out;
}

gpu::HostMatrix OrderedMatrices::transposed(const gpu::HostMatrix& stored) {
  const int rows = stored.cols;
  const int cols = stored.rows;
  const std::size_t word = gpu::size_of(stored.dtype);
  std::byte* const out = keep(std::size_t(rows) * std::size_t(cols) * word);
  const auto turn = [&]<class Word>(Word) {
    transpose(static_cast<const Word*>(stored.data), rows, 0, 1, reinterpret_cast<Word*>(out), rows,
              cols);
  };
  word == sizeof(std::uint16_t) ? turn(std::uint16_t()) : turn(std::uint32_t());
  return {stored.dtype, out, rows, cols};
}

} // namespace paceline::models
