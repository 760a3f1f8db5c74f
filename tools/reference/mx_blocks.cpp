// Blocks of floats from standard input as blocks of a microscaling format:
//   mx_blocks FORMAT floor|ceil|search
// In: 32 f32 a block. Out, for each: its scale's code, 32 codes, and 32 f32 that they mean.
#include "gpu/mx.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

using namespace paceline;
using namespace paceline::gpu;

namespace {

constexpr WeightFormat formats[] = {WeightFormat::mxfp8, WeightFormat::mxfp8_e5m2,
                                    WeightFormat::mxfp6, WeightFormat::mxfp6_e3m2,
                                    WeightFormat::mxfp4, WeightFormat::mxint8};
constexpr ScaleChoice choices[] = {ScaleChoice::floor, ScaleChoice::ceil, ScaleChoice::search};

template <class T, std::size_t n>
const T* named(const T (&all)[n], std::string_view name) {
  const T* const at = std::find_if(all, all + n, [&](T one) { return to_string(one) == name; });
  return at == all + n ? nullptr : at;
}

} // namespace

int main(int argc, char** argv) {
  const auto* format = argc == 3 ? named(formats, argv[1]) : nullptr;
  const auto* choice = argc == 3 ? named(choices, argv[2]) : nullptr;
  if (!format || !choice)
    return 2;
  float values[mx_block];
  while (std::fread(values, sizeof values, 1, stdin) == 1) {
    const MxBlock block = encode_block(*format, *choice, values);
    decode_block(*format, block, values);
    std::fwrite(&block.scale, 1, 1, stdout);
    std::fwrite(block.codes.data(), block.codes.size(), 1, stdout);
    std::fwrite(values, sizeof values, 1, stdout);
  }
}
