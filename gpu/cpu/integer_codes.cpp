#include "gpu/cpu/integer_codes.hpp"

#include "gpu/cpu/packed_words.hpp"
#include "gpu/gguf_blocks.hpp"
#include "gpu/mx.hpp"

#include <algorithm>

namespace paceline::gpu::cpu {
namespace {

IntegerCodes of_mx(WeightFormat format, float unit) {
  const MxElement& element = element_of(format);
  IntegerCodes how{element.bits(), mx_block, unit, 0, {}};
  for (int code = 0; element.bits() < 8 && code < 1 << element.bits(); ++code) {
    const int packed = element.bits() == 6 ? six_bits(format).of_code[std::size_t(code)] : code;
    how.numbers[std::size_t(packed)] =
        std::int8_t(decode_element(element, std::uint8_t(code)) / unit);
  }
  return how;
}

IntegerCodes of_blocks(const ScaledCodes& codes) {
  return {codes.bits, codes.part, 1, 0, codes.numbers};
}

IntegerCodes with_offset(IntegerCodes how) {
  how.offset = how.bits == 8 ? 128 : -std::ranges::min(how.numbers);
  return how;
}

/// The codes of all formats that have integers, by format.
struct AllCodes {
  std::array<IntegerCodes, std::size_t(WeightFormat::iq4_xs) + 1> of_format;
  AllCodes() {
    const auto set = [this](WeightFormat format, const IntegerCodes& how) {
      of_format[std::size_t(format)] = with_offset(how);
    };
    set(WeightFormat::mxfp4, of_mx(WeightFormat::mxfp4, 0.5f));
    set(WeightFormat::mxfp6, of_mx(WeightFormat::mxfp6, 0.125f));
    set(WeightFormat::mxint8, of_mx(WeightFormat::mxint8, 0x1p-6f));
    for (int i = int(WeightFormat::q4_0); i <= int(WeightFormat::iq4_xs); ++i)
      set(WeightFormat(i), of_blocks(scaled_codes(WeightFormat(i))));
  }
};

} // namespace

const IntegerCodes* integer_codes(WeightFormat format) {
  static const AllCodes all;
  const IntegerCodes& how = all.of_format[std::size_t(format)];
  return how.bits > 0 ? &how : nullptr;
}

} // namespace paceline::gpu::cpu
