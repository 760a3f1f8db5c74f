#include "models/checkpoint/gguf_rows.hpp"

#include "gpu/shares.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <variant>

namespace paceline::models {
namespace {

constexpr std::size_t block_codes = 16; ///< Bytes of the codes of a block of MXFP4.

/// Returns a code of a block whose codes follow each other.
unsigned code_at(const std::byte* codes, std::size_t i) {
  return std::to_integer<unsigned>(codes[i / 2] >> (i % 2 * 4)) & 15;
}

/// Sizes of a tensor's rows; those of bytes are 0 if its type cannot have such rows.
struct Layout {
  std::int64_t cols;
  std::int64_t rows;
  std::size_t word = 0;       ///< Bytes of a plain number.
  std::size_t row = 0;        ///< Bytes of a row in a GGUF.
  std::size_t stored_row = 0; ///< The same without exponents that lie elsewhere.

  explicit Layout(const PlacedTensor& tensor) {
    const std::uint64_t elements = tensor.elements();
    cols = tensor.rows.size() == elements ? 1 : tensor.shape.back();
    rows = std::int64_t(elements) / cols;
    if (const auto* format = std::get_if<gpu::GgufFormat>(&tensor.type)) {
      const int each = gpu::block_elements(*format);
      row = cols % each == 0 ? std::size_t(cols / each) * gpu::block_bytes(*format) : 0;
    } else {
      word = gpu::size_of(std::get<gpu::DType>(tensor.type));
      row = std::size_t(cols) * word;
    }
    stored_row = tensor.exponents.empty() ? row : row / (block_codes + 1) * block_codes;
  }
};

} // namespace

std::uint64_t PlacedTensor::elements() const {
  std::uint64_t out = 1;
  for (const std::int64_t size : shape)
    out *= std::uint64_t(size);
  return out;
}

bool PlacedTensor::is_whole() const {
  if (parts.empty() || shape.empty() || elements() == 0)
    return false;
  const Layout layout(*this);
  const std::size_t size = parts.front().size();
  const auto fits = [&](const auto& list, std::size_t each) {
    return std::ranges::all_of(list, [&](const auto& part) { return part.size() == each; });
  };
  const auto below = [](const std::vector<int>& list, std::uint64_t end) {
    return std::ranges::all_of(list, [&](int i) { return i >= 0 && std::uint64_t(i) < end; });
  };
  if (layout.stored_row == 0 || size == 0 || size % layout.stored_row != 0 || !fits(parts, size))
    return false;
  const std::size_t in_part = size / layout.stored_row;
  const bool joined =
      exponents.empty() || (exponents.size() == parts.size() &&
                            fits(exponents, in_part * layout.stored_row / block_codes));
  const std::uint64_t all = in_part * parts.size();
  return joined && below(rows, all) && below(columns, std::uint64_t(layout.cols)) &&
         (columns.empty() || std::int64_t(columns.size()) == layout.cols) &&
         std::uint64_t(layout.rows) == (rows.empty() ? all : rows.size());
}

GgufRows::GgufRows(const PlacedTensor& tensor) : tensor_(tensor) {
  assert(tensor.is_whole());
  const Layout layout(tensor);
  cols_ = layout.cols;
  rows_ = layout.rows;
  word_ = layout.word;
  row_bytes_ = layout.row;
  part_rows_ = tensor.parts.front().size() / layout.stored_row;
}

std::vector<std::byte> GgufRows::take(std::int64_t first, std::int64_t count) const {
  std::vector<std::byte> out(std::size_t(count) * row_bytes_);
  gpu::for_shares(int(count), out.size(), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const std::int64_t row = first + i;
      copy_row(tensor_.rows.empty() ? row : tensor_.rows[std::size_t(row)],
               out.data() + std::size_t(i) * row_bytes_);
    }
  });
  return out;
}

void GgufRows::copy_row(std::int64_t row, std::byte* to) const {
  const std::size_t part = std::size_t(row) / part_rows_;
  const std::size_t own = std::size_t(row) % part_rows_;
  if (!tensor_.exponents.empty())
    return join_blocks(part, own, to);
  if (tensor_.transposed)
    return copy_column(tensor_.parts[part], own, to);
  const std::byte* const from = tensor_.parts[part].data() + own * row_bytes_;
  if (tensor_.columns.empty()) {
    std::memcpy(to, from, row_bytes_);
    return;
  }
  for (const int column : tensor_.columns) {
    std::memcpy(to, from + std::size_t(column) * word_, word_);
    to += word_;
  }
}

void GgufRows::copy_column(std::span<const std::byte> part, std::size_t column,
                           std::byte* to) const {
  for (std::size_t i = 0; i < std::size_t(cols_); ++i)
    std::memcpy(to + i * word_, part.data() + (i * part_rows_ + column) * word_, word_);
}

void GgufRows::join_blocks(std::size_t part, std::size_t row, std::byte* to) const {
  const std::size_t blocks = row_bytes_ / (block_codes + 1);
  const std::byte* codes = tensor_.parts[part].data() + row * blocks * block_codes;
  const std::byte* const exponents = tensor_.exponents[part].data() + row * blocks;
  for (std::size_t block = 0; block < blocks; ++block, codes += block_codes) {
    *to++ = exponents[block];
    for (std::size_t i = 0; i < block_codes; ++i)
      *to++ = std::byte(code_at(codes, i) | code_at(codes, i + block_codes) << 4);
  }
}

} // namespace paceline::models
