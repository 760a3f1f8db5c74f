// A device of a chosen back end with one lane, for tests of operations.
#pragma once

#include "base/bf16.hpp"
#include "gpu/device.hpp"
#include "gpu/mx.hpp"
#include "tests/gpu/backends.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace paceline::gpu::testing {

class Rig {
public:
  Rig(const std::string& backend, int threads)
      : device(open_backend(backend, threads)), lane(device->open_lane("target").value()) {}

  void run(std::function<void(Operations&)> body) const {
    auto step = std::make_shared<TestStep>(std::move(body));
    REQUIRE(lane->submit(step));
    const Retirement how = step->wait();
    REQUIRE(how.completed);
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Lane> lane;
};

/// A dense matrix of the test's own.
struct Matrix {
  Matrix(int r, int c) : rows(r), cols(c), values(std::size_t(r) * std::size_t(c)) {}
  Matrix(int r, int c, Random& random, float scale = 1)
      : rows(r), cols(c), values(random.floats(std::size_t(r) * std::size_t(c), scale)) {}
  Tensor tensor() { return {values.data(), rows, cols, cols}; }
  float at(int r, int c) const {
    return values[std::size_t(r) * std::size_t(cols) + std::size_t(c)];
  }
  bool operator==(const Matrix& other) const { // Bit for bit.
    return rows == other.rows && cols == other.cols &&
           std::equal(values.begin(), values.end(), other.values.begin(), [](float a, float b) {
             return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
           });
  }
  Matrix slice(int first, int count) const {
    Matrix part(count, cols);
    std::copy_n(values.begin() + std::ptrdiff_t(first) * cols, part.values.size(),
                part.values.begin());
    return part;
  }

  int rows;
  int cols;
  std::vector<float> values;
};

/// A product with a weight, of rows that have 0.5 in `out` before it.
inline Matrix product(const Rig& rig, const Weight& weight, Matrix& in, bool add = false) {
  Matrix out(in.rows, weight.outputs());
  std::fill(out.values.begin(), out.values.end(), 0.5f);
  rig.run([&](Operations& ops) {
    if (add)
      ops.linear_add(out.tensor(), in.tensor(), weight);
    else
      ops.linear(out.tensor(), in.tensor(), weight);
  });
  return out;
}

/// The bits of all values, as one number (FNV-1a).
inline std::uint64_t fingerprint(const Matrix& matrix) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : matrix.values)
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3u;
  return hash;
}

/// Random weights in a checkpoint's format, or f32 to be packed in another.
struct HostWeight {
  HostWeight(DType dtype, int rows, int cols, Random& random)
      : HostWeight(format_of(dtype), rows, cols, random) {}
  HostWeight(WeightFormat format, int rows, int cols, Random& random)
      : matrix{DType::f32, nullptr, rows, cols}, f32(rows, cols, random, 0.25f) {
    if (is_mx(format))
      quantize(format);
    else if (format != WeightFormat::f32)
      round(format == WeightFormat::bf16 ? DType::bf16 : DType::f16, random);
    if (matrix.dtype == DType::f32)
      matrix.data = is_mx(format) ? before.data() : f32.values.data();
    else
      matrix.data = bits.data();
  }
  HostWeight(const HostWeight&) = delete;

  HostMatrix matrix;
  Matrix f32; ///< The values that are multiplied with.
  std::vector<std::uint16_t> bits;
  std::vector<float> before; ///< Quantizing.

private:
  void round(DType dtype, Random& random) {
    matrix.dtype = dtype;
    for (float& value : f32.values) {
      if (dtype == DType::bf16) {
        bits.push_back(base::to_bf16(value).bits);
        value = base::to_float(base::bf16{bits.back()});
      } else { // Sign, an exponent of 2^-7 .. 1, any mantissa.
        bits.push_back(std::uint16_t((random.bits() & 0x83FFu) | ((8 + random.bits() % 8) << 10)));
        value = base::to_float(base::f16{bits.back()});
      }
    }
  }

  /// Blocks of different sizes; in some of them, elements down to nothing.
  void quantize(WeightFormat format) {
    matrix.quantization = Quantization{format, ScaleChoice::search};
    for (int r = 0; r < matrix.rows; ++r)
      for (int first = 0; first < matrix.cols; first += mx_block) {
        float* const at = f32.values.data() + r * matrix.cols + first;
        const int count = std::min(mx_block, matrix.cols - first);
        for (int i = 0; i < count; ++i)
          at[i] = std::ldexp(at[i], (r + first / mx_block) % 5 - (r % 3) * (i % 11));
        before.insert(before.end(), at, at + count);
        float padded[mx_block] = {};
        std::copy_n(at, count, padded);
        decode_block(format, encode_block(format, ScaleChoice::search, padded), padded);
        std::copy_n(padded, count, at);
      }
  }
};

/// Largest |a - b| in units of `scale[i]`.
inline double worst(const Matrix& a, const Matrix& b, const Matrix& scale) {
  double most = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double off =
        std::abs(double(a.values[i]) - double(b.values[i])) / double(scale.values[i]);
    most = off <= most ? most : off; // NaN counts as worst.
  }
  return most;
}

} // namespace paceline::gpu::testing
