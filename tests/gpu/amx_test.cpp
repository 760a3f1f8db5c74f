// The products of gpu/cpu/amx.cpp on machines without tiles: the same source, its tile instructions
// played by the functions below as Intel's manual (volume 2, chapter 3) describes them.
#if defined(__x86_64__)

#include "gpu/cpu/avx512bf16.hpp"
#include "tests/gpu/rig.hpp"

#include <cstring>
#include <immintrin.h>
#include <stdexcept>

namespace {

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  alignas(64) std::byte data[16][64];
};
Tile tiles[8];

float bf16_at(const Tile& tile, int row, int column) {
  std::uint16_t bits;
  std::memcpy(&bits, &tile.data[row][2 * column], sizeof bits);
  return paceline::base::to_float(paceline::base::bf16{bits});
}

void played_loadconfig(const void* memory) {
  const auto* bytes = static_cast<const std::uint8_t*>(memory);
  for (int t = 0; t < 8; ++t) {
    std::uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + 16 + 2 * t, sizeof row_bytes);
    tiles[t] = {};
    tiles[t].rows = bytes[48 + t];
    tiles[t].row_bytes = row_bytes;
    if (bytes[0] != 1 || tiles[t].rows > 16 || row_bytes > 64)
      throw std::logic_error("a general protection fault: tile configuration");
  }
}
void played_loadd(int t, const void* base, std::size_t stride) {
  for (int r = 0; r < tiles[t].rows; ++r)
    std::memcpy(tiles[t].data[r], static_cast<const std::byte*>(base) + std::size_t(r) * stride,
                std::size_t(tiles[t].row_bytes));
}
void played_stored(int t, void* base, std::size_t stride) {
  for (int r = 0; r < tiles[t].rows; ++r)
    std::memcpy(static_cast<std::byte*>(base) + std::size_t(r) * stride, tiles[t].data[r],
                std::size_t(tiles[t].row_bytes));
}
void played_zero(int t) {
  std::memset(tiles[t].data, 0, sizeof tiles[t].data);
}
void played_release() {
  for (Tile& tile : tiles)
    tile.rows = tile.row_bytes = 0; // A product from here on is a fault.
}
void played_dpbf16ps(int to, int a, int b) {
  if (tiles[to].rows == 0 || tiles[to].rows != tiles[a].rows ||
      tiles[to].row_bytes != tiles[b].row_bytes || tiles[a].row_bytes != 4 * tiles[b].rows)
    throw std::logic_error("an undefined instruction: tiles that do not fit");
  for (int m = 0; m < tiles[to].rows; ++m)
    for (int k = 0; k < tiles[b].rows; ++k)
      for (int n = 0; n < tiles[to].row_bytes / 4; ++n) {
        float sum;
        std::memcpy(&sum, &tiles[to].data[m][4 * n], sizeof sum);
        sum += bf16_at(tiles[a], m, 2 * k) * bf16_at(tiles[b], k, 2 * n);
        sum += bf16_at(tiles[a], m, 2 * k + 1) * bf16_at(tiles[b], k, 2 * n + 1);
        std::memcpy(&tiles[to].data[m][4 * n], &sum, sizeof sum);
      }
}

} // namespace

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig played_loadconfig
#define _tile_loadd played_loadd
#define _tile_stored played_stored
#define _tile_zero played_zero
#define _tile_release played_release
#define _tile_dpbf16ps played_dpbf16ps
#define amx_kernels played_amx_kernels // The library's own stays what it is.
#include "gpu/cpu/amx.cpp"

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// As two ranks would make it: rows staged and tiles multiplied in two parts.
Matrix product(const cpu::Kernels& kernels, const cpu::PackedWeight& w, Matrix in, bool add) {
  Matrix out(in.rows, w.outputs());
  std::fill(out.values.begin(), out.values.end(), 0.5f);
  const Rig rig("scalar", 1);
  const auto staged = rig.device->allocate(kernels.staged_bytes(in.rows, w)).value();
  const int half = (in.rows / 2 + cpu::row_block - 1) / cpu::row_block * cpu::row_block;
  kernels.stage(staged->data(), in.tensor(), w, 0, std::min(half, in.rows));
  if (half < in.rows)
    kernels.stage(staged->data(), in.tensor(), w, half, in.rows);
  const int middle = w.tiles() / 2;
  kernels.linear(out.tensor(), staged->data(), w, 0, middle, add);
  kernels.linear(out.tensor(), staged->data(), w, middle, w.tiles(), add);
  return out;
}

} // namespace

TEST_CASE("products on tiles agree with the oracle, and are the same bits in any batch") {
  if (!cpu::avx512bf16_kernels()) {
    MESSAGE("skipped: the rest of that family's code needs AVX-512 BF16");
    return;
  }
  const cpu::AmxKernels kernels;
  const Rig rig("scalar", 1);
  Random random(11);
  for (const auto& [of, inputs] : {std::pair(200, 96), std::pair(17, 33), std::pair(64, 384)}) {
    const int outputs = of;
    CAPTURE(outputs);
    const HostWeight host(DType::bf16, outputs, inputs, random);
    const auto weight = rig.device->pack({&host.matrix, 1}).value();
    const auto& w = dynamic_cast<const cpu::PackedWeight&>(*weight);
    Matrix in(50, inputs, random);
    Matrix scale(50, outputs);
    std::fill(scale.values.begin(), scale.values.end(), float(inputs) / 8);
    for (const bool add : {false, true}) {
      const Matrix expected = product(cpu::scalar_kernels(), w, in, add);
      CHECK(worst(product(kernels, w, in, add), expected, scale) < 1e-6);
      Matrix alone(0, outputs);
      for (int r = 0; r < in.rows; ++r) {
        const Matrix one = product(kernels, w, in.slice(r, 1), add);
        alone.values.insert(alone.values.end(), one.values.begin(), one.values.end());
        ++alone.rows;
      }
      for (const int rows : {2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 50}) {
        CAPTURE(rows);
        CHECK(product(kernels, w, in.slice(50 - rows, rows), add) == alone.slice(50 - rows, rows));
      }
    }
  }
}

#endif
