// What a cache keeps keys and values as, and how they become codes of 8 bits.
#pragma once

#include "base/host_device.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// int8: each key, and each value, is codes and a scale of its own (KvScale), so that its bits
/// depend on its row alone, whatever else is in the page.
enum class KvType : std::uint8_t { f32, bf16, int8 };

/// "f32", "bf16", "int8"
const char* to_string(KvType type) noexcept;

/// Returns the bytes of a key, or of a value, of one head at one position.
PACELINE_HOST_DEVICE inline std::size_t kv_bytes(KvType type, int head_dim) {
  const auto numbers = std::size_t(head_dim);
  return type == KvType::f32    ? numbers * sizeof(float)
         : type == KvType::bf16 ? numbers * 2
                                : numbers + sizeof(float);
}

/// The scale of a key, or of a value, of 8 bits: code i is number i / scale, rounded to nearest,
/// ties to even, and lies in [-127, 127].
class KvScale {
public:
  /// most: the greatest `size` of the numbers.
  PACELINE_HOST_DEVICE explicit KvScale(std::uint32_t most) {
    constexpr std::uint32_t infinity = 0x7F800000u;
    constexpr float least = 0x1p-100f; // Below it 127 / most may have no float: all codes are 0.
    const float greatest = std::bit_cast<float>(most);
    if (most >= infinity) {
      scale_ = std::bit_cast<float>(infinity | 0x400000u);
    } else if (greatest >= least) {
      scale_ = greatest / 127;
      codes_of_one_ = 127 / greatest;
    }
  }
  /// Returns the bits of a number's size, in the order of sizes; those of what is not finite come
  /// last.
  PACELINE_HOST_DEVICE static std::uint32_t size(float number) {
    return std::bit_cast<std::uint32_t>(number) & 0x7FFFFFFFu;
  }

  /// Returns what a code is multiplied by; NaN: some number is not finite, and all codes are 0.
  PACELINE_HOST_DEVICE float scale() const { return scale_; }
  PACELINE_HOST_DEVICE std::int8_t code(float number) const {
    constexpr float whole = 0x1.8p23f; // Sums of this size have no fractions.
    return codes_of_one_ > 0 ? std::int8_t(number * codes_of_one_ + whole - whole) : std::int8_t(0);
  }

private:
  float scale_ = 0;
  float codes_of_one_ = 0;
};

} // namespace paceline::gpu
