// Products of bf16 weights on AMX tiles; attention over bf16 is in amx_attention.cpp, and all else
// is the portable family's. A tile product takes up to 16 rows at the price of one while weights
// come from memory, and sums every row in the same order, so that verifying a window costs what one
// token costs.
#include "gpu/cpu/amx.hpp"

#include "gpu/cpu/amx_tiles.hpp"
#include "gpu/cpu/product_kernels.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace paceline::gpu::cpu {
namespace {

bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  constexpr unsigned amx_bf16_and_tile = (1u << 22) | (1u << 24);
  constexpr unsigned avx512_f_bw = (1u << 16) | (1u << 30);
  if ((d & amx_bf16_and_tile) != amx_bf16_and_tile || (b & avx512_f_bw) != avx512_f_bw)
    return false;
  constexpr unsigned avx512_bf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx512_bf16);
}

// Linux grants the tiles' large state to a process that asks for it.
bool system_grants_amx() {
  constexpr long request_permission = 0x1023; // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

} // namespace
} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// How many input tiles ahead of the products their operands are asked for.
constexpr int prefetch_tiles = 4;

struct Product {
  Tensor out;
  const std::byte* staged = nullptr; // [row block][input tile][16][32], bf16
  const PackedWeight& w;
  bool add = false;

  int input_tiles() const { return w.padded_inputs() / tile_inputs; }
  const std::byte* inputs(int block) const {
    return staged + std::size_t(block) * std::size_t(input_tiles()) * tile_size;
  }
};

// Adds or copies the part of a finished tile that is wanted.
void finish(const Product& p, const float* sums, int first_row, int rows, int tile) {
  const int first = tile * tile_outputs;
  const __mmask16 wanted = first_lanes(p.w.outputs() - first);
  for (int r = 0; r < rows; ++r) {
    float* out = p.out.row(first_row + r) + first;
    __m512 sum = _mm512_load_ps(sums + r * tile_outputs);
    if (p.add)
      sum = _mm512_add_ps(_mm512_maskz_loadu_ps(wanted, out), sum);
    _mm512_mask_storeu_ps(out, wanted, sum);
  }
}

// The intrinsics take a tile's number as text.
inline void store_accumulator(int number, float* to, std::size_t stride) {
  switch (number) {
  case 0: _tile_stored(0, to, stride); break;
  case 1: _tile_stored(1, to, stride); break;
  case 2: _tile_stored(2, to, stride); break;
  default: _tile_stored(3, to, stride); break;
  }
}

// An accumulator goes to rows [first_row, first_row + rows) of weight tile `tile`.
inline void store(int accumulator, const Product& p, int first_row, int rows, int tile) {
  const bool direct = !p.add && (tile + 1) * tile_outputs <= p.w.outputs();
  if (direct) {
    store_accumulator(accumulator, p.out.row(first_row) + tile * tile_outputs,
                      std::size_t(p.out.stride) * sizeof(float));
    return;
  }
  alignas(64) float sums[16 * tile_outputs];
  store_accumulator(accumulator, sums, tile_row);
  finish(p, sums, first_row, rows, tile);
}

void prefetch_tile(const std::byte* tile) {
  for (int line = 0; line < 16; ++line)
    _mm_prefetch(reinterpret_cast<const char*>(tile) + line * 64, _MM_HINT_T0);
}

// One block of up to 16 rows against Count (1 to 4) tiles of weights, side by side.
// Weights are prefetched `ahead` input tiles early, at the end those of the tiles that follow.
template <int Count>
void narrow(const Product& p, int block, int rows, int tile) {
  const int input_tiles = p.input_tiles();
  const int ahead = std::min(prefetch_tiles, input_tiles);
  const std::size_t stride = p.w.tile_bytes();
  const std::byte* in = p.inputs(block);
  const std::byte* w = p.w.tile(tile);
  const std::byte* next = w + std::size_t(ahead) * tile_size;
  _tile_zero(0);
  if constexpr (Count > 1)
    _tile_zero(1);
  if constexpr (Count > 2)
    _tile_zero(2);
  if constexpr (Count > 3)
    _tile_zero(3);
  for (int k = 0; k < input_tiles; ++k, in += tile_size, w += tile_size, next += tile_size) {
    if (k == input_tiles - ahead)
      next += std::size_t(Count - 1) * stride; // To the Count tiles that follow.
    _tile_loadd(4, in, tile_row);
    prefetch_tile(next);
    _tile_loadd(6, w, tile_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Count > 1) {
      prefetch_tile(next + stride);
      _tile_loadd(7, w + stride, tile_row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Count > 2) {
      prefetch_tile(next + 2 * stride);
      _tile_loadd(6, w + 2 * stride, tile_row);
      _tile_dpbf16ps(2, 4, 6);
    }
    if constexpr (Count > 3) {
      prefetch_tile(next + 3 * stride);
      _tile_loadd(7, w + 3 * stride, tile_row);
      _tile_dpbf16ps(3, 4, 7);
    }
  }
  for (int i = 0; i < Count; ++i)
    store(i, p, block * row_block, rows, tile + i);
}

// Two blocks of rows against two tiles of weights: every load serves two products.
void square(const Product& p, int block, int rows_of_second, int tile) {
  const int input_tiles = p.input_tiles();
  const std::size_t stride = std::size_t(input_tiles) * tile_size;
  const std::byte* in = p.inputs(block);
  const std::byte* w = p.w.tile(tile);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int k = 0; k < input_tiles; ++k, in += tile_size, w += tile_size) {
    _tile_loadd(4, in, tile_row);
    _tile_loadd(6, w, tile_row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + stride, tile_row);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, in + stride, tile_row);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  const int first = block * row_block;
  store(0, p, first, row_block, tile);
  store(1, p, first, row_block, tile + 1);
  store(2, p, first + row_block, rows_of_second, tile);
  store(3, p, first + row_block, rows_of_second, tile + 1);
}

void few_rows(const Product& p, int first, int last) {
  const int rows = p.out.rows;
  configure_tiles(rows);
  for (; first + 4 <= last; first += 4)
    narrow<4>(p, 0, rows, first);
  if (last - first == 3)
    narrow<3>(p, 0, rows, first);
  else if (last - first == 2)
    narrow<2>(p, 0, rows, first);
  else if (last - first == 1)
    narrow<1>(p, 0, rows, first);
}

// All rows against two tiles of weights at a time, which stay in the cache meanwhile.
void many_rows(const Product& p, int first, int last) {
  const int blocks = (p.out.rows + row_block - 1) / row_block;
  const int rows_of_last = p.out.rows - (blocks - 1) * row_block;
  const auto rows_of = [&](int block) { return block + 1 == blocks ? rows_of_last : row_block; };
  for (int tile = first; tile < last; tile += 2) {
    int block = 0;
    if (tile + 1 < last) {
      configure_tiles(row_block, row_block);
      for (; block + 1 < blocks; block += 2) {
        if (rows_of(block + 1) != row_block)
          configure_tiles(row_block, rows_of(block + 1));
        square(p, block, rows_of(block + 1), tile);
      }
    }
    for (; block < blocks; ++block) {
      configure_tiles(rows_of(block));
      if (tile + 1 < last)
        narrow<2>(p, block, rows_of(block), tile);
      else
        narrow<1>(p, block, rows_of(block), tile);
    }
  }
}

class AmxKernels final : public ProductKernels {
public:
  const char* name() const override { return "amx"; }

  double multiply_adds(int rounds) const override {
    configure_tiles(row_block);
    alignas(64) std::byte zeros[tile_size] = {};
    written(zeros);
    _tile_loadd(4, zeros, tile_row);
    _tile_loadd(6, zeros, tile_row);
    for (int i = 0; i < rounds; ++i) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 6);
      _tile_dpbf16ps(2, 4, 6);
      _tile_dpbf16ps(3, 4, 6);
    }
    _tile_release();
    return 4.0 * rounds * row_block * tile_outputs * tile_inputs;
  }

  std::size_t staged_bytes(int rows, const PackedWeight& w) const override {
    if (w.dtype() != DType::bf16)
      return portable_.staged_bytes(rows, w);
    const int blocks = (rows + row_block - 1) / row_block;
    return std::size_t(blocks) * std::size_t(w.padded_inputs() / tile_inputs) * tile_size;
  }

  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
             int last) const override {
    if (w.dtype() != DType::bf16)
      return portable_.stage(staged, in, w, first, last);
    const std::size_t block_bytes = staged_bytes(row_block, w);
    for (int r = first; r < last; ++r)
      stage_row(staged + std::size_t(r / row_block) * block_bytes +
                    std::size_t(r % row_block) * tile_row,
                in.row(r), in.cols);
  }

  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, int first, int last,
              bool add) const override {
    if (w.dtype() != DType::bf16)
      return portable_.linear(out, staged, w, first, last, add);
    const Product product{out, staged, w, add};
    written(staged);
    if (out.rows <= row_block)
      few_rows(product, first, last);
    else
      many_rows(product, first, last);
    _tile_release();
  }

  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    if (kv.dtype != DType::bf16)
      return portable_.attend(out, q, positions, options, kv, scratch);
    attend_on_tiles(out, q, positions, options, kv, scratch);
  }
};

} // namespace
} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

namespace paceline::gpu::cpu {

const Kernels* amx_kernels() {
  static const bool usable = processor_has_amx() && system_grants_amx();
  if (!usable)
    return nullptr;
  static const AmxKernels kernels;
  return &kernels;
}

} // namespace paceline::gpu::cpu

#else

namespace paceline::gpu::cpu {

const Kernels* amx_kernels() {
  return nullptr;
}

} // namespace paceline::gpu::cpu

#endif
