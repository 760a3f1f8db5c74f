// Floats become blocks of GGUF files with little error, and the blocks are what gguf_blocks reads.
#include "gpu/gguf_encode.hpp"

#include "gpu/gguf_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace paceline;
using gpu::GgufFormat;

namespace {

std::vector<float> rounded(GgufFormat format, const std::vector<float>& values) {
  const auto elements = std::size_t(gpu::block_elements(format));
  std::vector<std::byte> block(gpu::block_bytes(format));
  std::vector<float> out(values.size());
  for (std::size_t at = 0; at < values.size(); at += elements) {
    gpu::encode_block(format, ScaleChoice::search, values.data() + at, block.data());
    gpu::decode_block(format, block.data(), out.data() + at);
  }
  return out;
}

/// Sum of the squared errors over that of the squared values.
double relative(const std::vector<float>& values, const std::vector<float>& rounded) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(double(values[i]) - double(rounded[i]), 2);
    size += std::pow(double(values[i]), 2);
  }
  return error / size;
}

std::vector<float> bell(std::size_t count, float scale = 0.02f) {
  std::mt19937 random(7); // NOLINT(cert-msc51-cpp): the same numbers in every run
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(count);
  std::ranges::generate(out, [&] { return normal(random); });
  return out;
}

/// Blocks with the scale that brings the value farthest from zero to the end of the range, as
/// simple encoders make them.
std::vector<float> by_largest(const std::vector<float>& values, int end, int least, int most) {
  std::vector<float> out(values.size());
  for (std::size_t at = 0; at < values.size(); at += gpu::gguf::small) {
    const auto* farthest =
        std::max_element(values.data() + at, values.data() + at + gpu::gguf::small,
                         [](float a, float b) { return std::abs(a) < std::abs(b); });
    const float scale = *farthest / float(end);
    for (std::size_t i = at; i < at + gpu::gguf::small; ++i)
      out[i] = scale * std::clamp(std::round(values[i] / scale), float(least), float(most));
  }
  return out;
}

} // namespace

TEST_CASE("the error of rounding is that of the format's steps, and less than a simple encoder's") {
  const std::vector<float> values = bell(64 * 256);
  const auto error = [&](GgufFormat format) { return relative(values, rounded(format, values)); };
  CHECK(error(GgufFormat::q8_0) < 4e-5);
  CHECK(error(GgufFormat::q8_0) <= 1.02 * relative(values, by_largest(values, 127, -127, 127)));
  CHECK(error(GgufFormat::q5_0) < 0.9 * relative(values, by_largest(values, -16, -16, 15)));
  CHECK(error(GgufFormat::q4_0) < 0.9 * relative(values, by_largest(values, -8, -8, 7)));
  CHECK(error(GgufFormat::q4_k) < error(GgufFormat::q4_0));
  CHECK(error(GgufFormat::q4_k) < 0.006);
  CHECK(error(GgufFormat::mxfp4) < 0.02);
}

TEST_CASE("numbers that a block can hold stay as they are") {
  std::vector<float> steps;
  std::vector<float> fine;
  for (int i = 0; i < 256; ++i) {
    steps.push_back(0.125f * float(i % 16 - 8)); // both ends of a range of four bits
    fine.push_back(0.25f * float(i % 32 == 0 ? 127 : i % 32 * 3 - 40));
  }
  CHECK(rounded(GgufFormat::q4_0, steps) == steps);
  CHECK(rounded(GgufFormat::q8_0, fine) == fine);
  CHECK(relative(steps, rounded(GgufFormat::q4_k, steps)) < 1e-6);
}

TEST_CASE("all parts of a block have their own scales and least values") {
  std::vector<float> values = bell(256);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = values[i] * float(1 + i / 32) + (i / 32 % 2 == 0 ? 0.3f : -0.2f);
  const std::vector<float> out = rounded(GgufFormat::q4_k, values);
  for (std::size_t part = 0; part < 8; ++part) {
    CAPTURE(part);
    const auto piece = [&](const std::vector<float>& of) {
      return std::vector<float>(of.begin() + std::ptrdiff_t(part * 32),
                                of.begin() + std::ptrdiff_t(part * 32 + 32));
    };
    CHECK(relative(piece(values), piece(out)) < 0.02);
  }
}

TEST_CASE("zeros, tiny and huge numbers become blocks of finite numbers") {
  for (const GgufFormat format : gpu::encoded_gguf_formats) {
    CAPTURE(gpu::to_string(format));
    CHECK(rounded(format, std::vector<float>(256, 0)) == std::vector<float>(256, 0));
    for (const float scale : {1e-45f, 1e-30f, 1e-7f, 1e4f, 1e30f, 1e37f}) {
      const std::vector<float> out = rounded(format, bell(256, scale));
      CHECK(std::ranges::all_of(out, [](float value) { return std::isfinite(value); }));
    }
    const std::vector<float> same(256, 0.75f);
    CHECK(relative(same, rounded(format, same)) < 0.01);
  }
}
