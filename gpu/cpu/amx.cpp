// Products of bf16 weights on AMX tiles. Attention over bf16 is in amx_attention.cpp, and all else
// is done by the portable family. While weights come from memory, a tile product takes as long for
// 16 rows as for one, and it sums every row in the same order, so that verifying a window costs
// what one token costs.
#include "gpu/cpu/amx.hpp"

#include "gpu/cpu/amx_codes.hpp"
#include "gpu/cpu/amx_tiles.hpp"
#include "gpu/cpu/avx512_mx.hpp"
#include "gpu/cpu/avx512_sums.hpp"
#include "gpu/cpu/int8_rows.hpp"
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
  constexpr unsigned amx = (1u << 22) | (1u << 24) | (1u << 25); // bf16, tiles, int8
  constexpr unsigned avx512_f_bw = (1u << 16) | (1u << 30);
  if ((d & amx) != amx || (b & avx512_f_bw) != avx512_f_bw)
    return false;
  constexpr unsigned avx512_bf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx512_bf16);
}

// Asks Linux for the tiles' large state, which it grants to processes that ask.
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

/// How many input tiles ahead of the products of few rows their weights are prefetched.
constexpr int prefetch_tiles = 8;
/// Many rows are multiplied with this many tiles of weights, and chunks of at most chunk_max input
/// tiles, at a time. Together with what is prefetched they fit the second-level cache (2 MiB).
constexpr int run_tiles = 12;
constexpr int chunk_max = 48;

/// The layout of staged inputs: [chunk][pair of row blocks][input tile of the chunk][row block of
/// the pair][16][32], bf16; an odd last block is alone.
class Chunks {
public:
  Chunks(int rows, const PackedWeight& w)
      : blocks_((rows + row_block - 1) / row_block), input_tiles_(w.padded_inputs() / tile_inputs),
        count_((input_tiles_ + chunk_max - 1) / chunk_max),
        size_((input_tiles_ + count_ - 1) / count_) {}

  int pairs() const { return (blocks_ + 1) / 2; }
  int count() const { return count_; }
  int begin(int chunk) const { return std::min(chunk * size_, input_tiles_); }
  int tiles(int chunk) const { return begin(chunk + 1) - begin(chunk); }
  /// Returns the number of row blocks of a pair.
  int width(int pair) const { return std::min(blocks_ - 2 * pair, 2); }
  std::size_t offset(int chunk, int pair) const {
    return std::size_t(begin(chunk) * blocks_ + tiles(chunk) * 2 * pair) * tile_size;
  }
  std::size_t bytes() const { return std::size_t(blocks_ * input_tiles_) * tile_size; }

private:
  int blocks_;
  int input_tiles_;
  int count_;
  int size_;
};

struct Product {
  Tensor out;
  const std::byte* staged = nullptr; // Laid out as Chunks says.
  const PackedWeight& w;
  bool add = false;
  int tile_rows = 0; // Rows of tiles 0 to 5.
  Bf16Tiles tiles;
};

// Stores an accumulator to rows [first_row, first_row + rows) of weight tile `tile`.
inline void store(int accumulator, const Product& p, int first_row, int rows, int tile) {
  const bool whole = rows == p.tile_rows && (tile + 1) * tile_outputs <= p.w.outputs();
  if (whole && !p.add) {
    store_accumulator(accumulator, p.out.row(first_row) + tile * tile_outputs,
                      std::size_t(p.out.stride) * sizeof(float));
    return;
  }
  alignas(64) float sums[row_block * tile_outputs];
  store_accumulator(accumulator, sums, tile_row);
  for (int r = 0; r < rows; ++r)
    finish(p.out, p.w, p.add, _mm512_load_ps(sums + r * tile_outputs), first_row + r, tile);
}

void prefetch_tile(const std::byte* tile) {
  for (int line = 0; line < 16; ++line)
    _mm_prefetch(reinterpret_cast<const char*>(tile) + line * 64, _MM_HINT_T0);
}

// Multiplies up to 16 rows with Count (1 to 4) tiles of weights, side by side. Weights are
// prefetched `ahead` input tiles early; at the end, those of the tiles that follow.
template <int Count>
void narrow(const Product& p, int tile) {
  const int input_tiles = p.w.padded_inputs() / tile_inputs;
  const int ahead = std::min(prefetch_tiles, input_tiles);
  const std::size_t stride = p.tiles.tile_bytes;
  const std::byte* in = p.staged;
  const std::byte* w = p.tiles.tile(tile);
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
      next += std::size_t(Count - 1) * stride; // Go on with the Count tiles that follow.
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
    store(i, p, 0, p.out.rows, tile + i);
}

void few_rows(const Product& p, int first, int last) {
  configure_tiles(p.tile_rows);
  for (; first + 4 <= last; first += 4)
    narrow<4>(p, first);
  if (last - first == 3)
    narrow<3>(p, first);
  else if (last - first == 2)
    narrow<2>(p, first);
  else if (last - first == 1)
    narrow<1>(p, first);
}

// What is prefetched while products run: weights, inputs and the lines that results go to.
struct Ahead {
  const std::byte* weights = nullptr; // Weights of two tiles.
  std::size_t tile_bytes = 0;
  int weight_lines = 0; // Lines of each tile per step.
  const std::byte* inputs = nullptr;
  int input_lines = 0;
  float* results = nullptr;
  int stride = 0;
  int rows = 0; // Rows per step, until none are left.
  int rows_left = 0;

  void step() {
    for (int i = 0; i < weight_lines; ++i, weights += line) {
      fetch(weights);
      fetch(weights + tile_bytes);
    }
    for (int i = 0; i < input_lines; ++i, inputs += line)
      fetch(inputs);
    for (int i = std::min(rows, rows_left); i > 0; --i, --rows_left, results += stride) {
      __builtin_prefetch(results, 1);
      __builtin_prefetch(results + tile_outputs, 1);
    }
  }

  static constexpr std::size_t line = 64;
  static void fetch(const std::byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
  }
};

// Multiplies one or two blocks of rows with one or two tiles of weights; every load serves two
// products. Accumulators 0 and 1 are the first block's, 2 and 3 the second's.
template <int Blocks, int Tiles>
void multiply(const std::byte* in, const std::byte* w, std::size_t tile, int steps, Ahead ahead) {
  for (int k = 0; k < steps; ++k, in += Blocks * tile_size, w += tile_size) {
    _tile_loadd(4, in, tile_row);
    _tile_loadd(6, w, tile_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Tiles > 1) {
      _tile_loadd(7, w + tile, tile_row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Blocks > 1) {
      _tile_loadd(5, in + tile_size, tile_row);
      _tile_dpbf16ps(2, 5, 6);
    }
    ahead.step();
    if constexpr (Blocks > 1 && Tiles > 1)
      _tile_dpbf16ps(3, 5, 7);
  }
}

void load_accumulators(const float* sums) {
  constexpr int accumulator = row_block * tile_outputs;
  _tile_loadd(0, sums, tile_row);
  _tile_loadd(1, sums + accumulator, tile_row);
  _tile_loadd(2, sums + 2 * accumulator, tile_row);
  _tile_loadd(3, sums + 3 * accumulator, tile_row);
}

void store_accumulators(float* sums) {
  constexpr int accumulator = row_block * tile_outputs;
  _tile_stored(0, sums, tile_row);
  _tile_stored(1, sums + accumulator, tile_row);
  _tile_stored(2, sums + 2 * accumulator, tile_row);
  _tile_stored(3, sums + 3 * accumulator, tile_row);
}

// Multiplies all rows with up to run_tiles tiles of weights: chunk by chunk of inputs, and in each
// pair by pair of row blocks. Unfinished sums wait in memory, which does not change their bits.
class Run {
public:
  /// sums: [sums_bytes]
  Run(const Product& p, int first, int last, std::byte* sums)
      : p_(p), chunks_(p.out.rows, p.w), first_(first), last_(last),
        sums_(reinterpret_cast<float*>(sums)) {}

  static std::size_t sums_bytes(int rows, const PackedWeight& w) {
    return std::size_t(run_tiles / 2 * Chunks(rows, w).pairs()) * 4 * tile_size;
  }

  void multiply_all() const {
    for (int chunk = 0; chunk < chunks_.count(); ++chunk)
      for (int pair = 0; pair < chunks_.pairs(); ++pair)
        for (int tile = first_; tile < last_; tile += 2)
          multiply_panel(chunk, pair, tile);
  }

private:
  const std::byte* weights(int tile, int chunk) const {
    return p_.tiles.tile(tile) + std::size_t(chunks_.begin(chunk)) * tile_size;
  }

  /// Multiplies two tiles of weights with a pair of row blocks.
  void multiply_panel(int chunk, int pair, int tile) const {
    const bool two_tiles = tile + 1 < last_;
    const auto kernel = chunks_.width(pair) == 2 ? (two_tiles ? multiply<2, 2> : multiply<2, 1>)
                                                 : (two_tiles ? multiply<1, 2> : multiply<1, 1>);
    float* sums =
        sums_ + ((tile - first_) / 2 * chunks_.pairs() + pair) * 4 * row_block * tile_outputs;
    if (chunk == 0) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      load_accumulators(sums);
    }
    kernel(p_.staged + chunks_.offset(chunk, pair), weights(tile, chunk), p_.tiles.tile_bytes,
           chunks_.tiles(chunk), ahead_of(chunk, pair, tile));
    if (chunk + 1 < chunks_.count())
      return store_accumulators(sums);
    for (int i = 0; i < 4; ++i) {
      const int row = (2 * pair + i / 2) * row_block;
      if (row < p_.out.rows && (i % 2 == 0 || two_tiles))
        store(i, p_, row, std::min(p_.out.rows - row, row_block), tile + i % 2);
    }
  }

  /// Returns what a panel prefetches: a part of the next weights, divided among the pairs, and a
  /// part of the next pair's inputs, divided among the panels.
  Ahead ahead_of(int chunk, int pair, int tile) const {
    const int steps = chunks_.tiles(chunk);
    const bool last_chunk = chunk + 1 == chunks_.count();
    Ahead ahead;
    ahead.weight_lines = parts(tile_lines, chunks_.pairs());
    ahead.weights = (last_chunk ? weights(tile + run_tiles, 0) : weights(tile, chunk + 1)) +
                    std::size_t(pair * steps * ahead.weight_lines) * Ahead::line;
    ahead.tile_bytes = p_.tiles.tile_bytes;
    if (pair + 1 < chunks_.pairs()) {
      ahead.input_lines = parts(2 * tile_lines, parts(last_ - first_, 2));
      ahead.inputs = p_.staged + chunks_.offset(chunk, pair + 1) +
                     std::size_t((tile - first_) / 2 * steps * ahead.input_lines) * Ahead::line;
    }
    if (last_chunk) {
      const int row = 2 * pair * row_block;
      ahead.results = p_.out.row(row) + tile * tile_outputs;
      ahead.stride = p_.out.stride;
      ahead.rows_left = std::min(p_.out.rows - row, 2 * row_block);
      ahead.rows = parts(ahead.rows_left, steps);
    }
    return ahead;
  }

  static constexpr int tile_lines = int(tile_size / Ahead::line);
  static int parts(int whole, int size) { return (whole + size - 1) / size; }

  const Product& p_;
  const Chunks chunks_;
  const int first_;
  const int last_;
  float* const sums_; ///< [panel][pair of blocks][accumulator][16][16]
};

/// Multiplies with tiles [first, last). sums: [Run::sums_bytes], unused for few rows.
void all_rows(const Product& p, int first, int last, std::byte* sums) {
  if (p.out.rows <= row_block)
    return few_rows(p, first, last);
  configure_tiles(p.tile_rows);
  for (; first < last; first += run_tiles)
    Run(p, first, std::min(first + run_tiles, last), sums).multiply_all();
}

/// Multiplies with a microscaling weight: decodes as many tiles as are multiplied together, once,
/// into the cache.
void all_rows_decoded(Product p, int first, int last, std::size_t sums_bytes, Scratch& scratch) {
  const int together = p.out.rows <= row_block ? 4 : run_tiles;
  std::byte* const memory =
      scratch.at_least(sums_bytes + std::size_t(together) * p.w.bf16_tile_bytes());
  for (; first < last; first += together) {
    const int end = std::min(first + together, last);
    p.tiles = decode_tiles(p.w, first, end, memory + sums_bytes);
    written(p.tiles.data);
    all_rows(p, first, end, memory);
  }
}

/// Does the same for few rows: tiles whose scales are moderate are decoded in registers.
void few_rows_decoded(const Product& p, TileRun run, Scratch& scratch) {
  const std::byte* const pairs = pairs_of_tiles(p.staged, p.out.rows, p.w, scratch);
  const bool moderate_rows = avx512_decodes_for(pairs, p.out.rows, p.w);
  if (moderate_rows)
    for_moderate_tiles(p.w, run, [&](TileRun part, bool moderate) {
      if (moderate)
        avx512_linear_mx_as_tiles(p.out, pairs, p.w, part, p.add);
    });
  for_moderate_tiles(p.w, run, [&](TileRun part, bool moderate) {
    if (!moderate || !moderate_rows)
      all_rows_decoded(p, part.first, part.last, 0, scratch);
  });
}

/// Returns whether tiles multiply so many rows of 8 bits faster than vectors, with the same bits.
/// They take as long for a block that lacks rows as for a whole one, so of two blocks or fewer the
/// last must have more than half of its rows.
bool tiles_pay(int rows) {
  const int missing = (row_block - rows % row_block) % row_block;
  return rows > 2 * row_block || missing < row_block / 2;
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

  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    if (kv.type == KvType::f32)
      return ProductKernels::attend(out, q, positions, options, kv, scratch);
    attend_on_tiles(out, q, positions, options, kv, scratch);
  }

protected:
  bool takes(const PackedWeight& w) const override {
    return by_codes(w) || ProductKernels::takes(w);
  }

  std::size_t own_staged_bytes(int rows, const PackedWeight& w) const override {
    return by_codes(w) ? amx_codes_staged_bytes(rows, w) : Chunks(rows, w).bytes();
  }

  void own_stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
                 int last) const override {
    if (by_codes(w))
      return amx_stage_codes(staged, in, w, first, last);
    const Chunks chunks(in.rows, w);
    for (int chunk = 0; chunk < chunks.count(); ++chunk) {
      const int begin = chunks.begin(chunk) * tile_inputs;
      const int count = std::min(chunks.tiles(chunk) * tile_inputs, in.cols - begin);
      for (int r = first; r < last; ++r) {
        const int block = r / row_block;
        const int width = chunks.width(block / 2);
        stage_row(staged + chunks.offset(chunk, block / 2) + std::size_t(block % 2) * tile_size +
                      std::size_t(r % row_block) * tile_row,
                  in.row(r) + begin, count, width);
      }
    }
  }

  void own_linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add,
                  Scratch& scratch) const override {
    if (by_codes(w)) {
      amx_linear_codes(out, staged, w, run, add, scratch);
      return _tile_release();
    }
    const Product product{out, staged, w, add, std::min(out.rows, row_block), tiles_of(w)};
    const std::size_t sums = out.rows <= row_block ? 0 : Run::sums_bytes(out.rows, w);
    written(staged);
    if (w.format() == WeightFormat::bf16)
      all_rows(product, run.first, run.last, scratch.at_least(sums));
    else if (out.rows <= rows_as_tiles)
      few_rows_decoded(product, run, scratch);
    else
      all_rows_decoded(product, run.first, run.last, sums, scratch);
    _tile_release();
  }

  void own_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                       bool add, Scratch& scratch) const override {
    if (!tiles_pay(out.rows))
      return avx512_linear_int8(out, staged, w, run, add, scratch);
    amx_linear_int8(out, staged, w, run, add, scratch);
    _tile_release();
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
