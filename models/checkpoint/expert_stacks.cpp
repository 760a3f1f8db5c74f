#include "models/checkpoint/expert_stacks.hpp"

#include "gpu/mx.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/transpose.hpp"
#include "models/checkpoint/widen.hpp"

#include <cstdint>
#include <cstring>
#include <fmt/format.h>

namespace paceline::models {

bool ExpertStacks::has(const std::string& stack) const {
  return files_->has(stack) || files_->has(stack + "_blocks");
}

ExpertStacks::Outputs ExpertStacks::outputs_of(TensorKey key, int rows) const {
  if (key.role == TensorRole::down)
    return {0, 1, rows};
  const bool up = key.role == TensorRole::up;
  return order_ == ExpertOrder::in_turn ? Outputs{up ? 1 : 0, 2, 2 * rows}
                                        : Outputs{up ? rows : 0, 1, 2 * rows};
}

Result<gpu::HostMatrix> ExpertStacks::matrix(const std::string& stack, TensorKey key, int rows,
                                             int cols) {
  if (order_ == ExpertOrder::in_turn)
    return files_->has(stack) ? transposed(stack, key, rows, cols) : blocks(stack, key, rows, cols);
  const Outputs own = outputs_of(key, rows);
  return files_->matrix_in(stack, {experts_, own.all, cols},
                           std::int64_t(key.expert) * own.all + own.first, rows);
}

Result<gpu::HostMatrix> ExpertStacks::transposed(const std::string& stack, TensorKey key, int rows,
                                                 int cols) {
  const Outputs own = outputs_of(key, rows);
  const auto stored =
      files_->matrix_in(stack, {experts_, cols, own.all}, std::int64_t(key.expert) * cols, cols);
  if (!stored)
    return stored;
  const std::size_t word = gpu::size_of(stored->dtype);
  std::byte* const out = keep(stack, std::size_t(rows) * std::size_t(cols) * word);
  const auto turn = [&]<class Word>(Word) {
    transpose(static_cast<const Word*>(stored->data), own.all, own.first, own.step,
              reinterpret_cast<Word*>(out), rows, cols);
  };
  word == sizeof(std::uint16_t) ? turn(std::uint16_t()) : turn(std::uint32_t());
  return gpu::HostMatrix{stored->dtype, out, rows, cols};
}

std::byte* ExpertStacks::keep(const std::string& stack, std::size_t bytes) {
  return kept_[stack].emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
}

/// Returns every `step`th of the rows that begin at `from`: `rows` of them.
const std::byte* ExpertStacks::every(const std::string& stack, const std::byte* from, int step,
                                     int rows, std::size_t row_bytes) {
  if (step == 1)
    return from;
  const std::size_t bytes = std::size_t(rows) * row_bytes;
  std::byte* const out = keep(stack, bytes);
  gpu::for_shares(rows, bytes, [&](int begin, int end) {
    for (auto r = std::size_t(begin); r < std::size_t(end); ++r)
      std::memcpy(out + r * row_bytes, from + r * std::size_t(step) * row_bytes, row_bytes);
  });
  return out;
}

Result<gpu::HostMatrix> ExpertStacks::blocks(const std::string& stack, TensorKey key, int rows,
                                             int cols) {
  const Outputs own = outputs_of(key, rows);
  const int in_row = gpu::blocks_of(cols);
  const int block = gpu::code_bytes(gpu::element_bits(WeightFormat::mxfp4));
  const std::string names[] = {stack + "_blocks", stack + "_scales"};
  const std::uint64_t weights = std::uint64_t(experts_) * std::uint64_t(own.all);
  const auto codes =
      files_->take(names[0], {experts_, own.all, in_row, block}, weights * std::uint64_t(cols));
  if (!codes)
    return tl::unexpected(codes.error());
  const auto scales = files_->take(names[1], {experts_, own.all, in_row}, 0);
  if (!scales)
    return tl::unexpected(scales.error());
  for (const TensorEntry* entry : {*codes, *scales})
    if (entry->type != StoredType::u8)
      return files_->wrong(entry->name,
                           fmt::format("is of {}, where bytes belong", to_string(entry->type)));
  const std::size_t scale_row = std::size_t(in_row);
  const std::size_t code_row = scale_row * std::size_t(block);
  const std::size_t first = std::size_t(key.expert) * std::size_t(own.all);
  const auto exponents =
      (*scales)->bytes.subspan(first * scale_row, std::size_t(own.all) * scale_row);
  if (std::memchr(exponents.data(), gpu::mx_nan_scale, exponents.size()))
    return files_->wrong(names[1], fmt::format("is NaN in expert {}", key.expert));
  const std::size_t begin = first + std::size_t(own.first);
  const std::byte* const from = (*codes)->bytes.data() + begin * code_row;
  gpu::HostMatrix out{gpu::DType::f32, every(stack, from, own.step, rows, code_row), rows, cols};
  out.quantization = gpu::Quantization{WeightFormat::mxfp4};
  out.block_scales = reinterpret_cast<const std::uint8_t*>(
      every(stack, (*scales)->bytes.data() + begin * scale_row, own.step, rows, scale_row));
  out.file = out.data == from ? &files_->file_of(names[0]) : nullptr;
  return out;
}

Result<std::vector<float>> ExpertStacks::bias(const std::string& stack, TensorKey key, int size) {
  const Outputs own = outputs_of(key, size);
  return files_->matrix_in(stack + "_bias", {experts_, own.all}, key.expert, 1)
      .map([&](const gpu::HostMatrix& stored) {
        const auto all = widen(stored.dtype, stored.data, std::size_t(own.all));
        std::vector<float> out;
        for (int i = 0; i < size; ++i)
          out.push_back(all[std::size_t(own.first + own.step * i)]);
        return out;
      });
}

void ExpertStacks::release(const std::string& stack) {
  for (const char* part : {"", "_blocks", "_scales"})
    files_->release(stack + part);
  kept_.erase(stack);
}

} // namespace paceline::models
