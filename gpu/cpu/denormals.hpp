// Denormal numbers are flushed to zero on every thread that runs operations: part of the numeric
// setting, and the same on all of them.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline::gpu::cpu {

/// Flushes while it lives, then restores what was set before.
class FlushDenormals {
public:
  FlushDenormals() : before_(get()) { set(before_ | flush_bits); }
  ~FlushDenormals() { set(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

private:
  friend class TakeDenormals;
#if defined(__x86_64__)
  static constexpr std::uint64_t flush_bits = 0x8040; // Results (FTZ) and operands (DAZ).
  static constexpr std::uint64_t operand_bits = 0x0040;
  static std::uint64_t get() {
    return _mm_getcsr();
  }
  static void set(std::uint64_t bits) {
    _mm_setcsr(std::uint32_t(bits));
  }
#elif defined(__aarch64__)
  static constexpr std::uint64_t flush_bits = std::uint64_t(1) << 24; // FZ, both.
  static constexpr std::uint64_t operand_bits = flush_bits;
  static std::uint64_t get() {
    std::uint64_t bits;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  static void set(std::uint64_t bits) {
    asm volatile("msr fpcr, %0" ::"r"(bits));
  }
#else
  static constexpr std::uint64_t flush_bits = 0;
  static constexpr std::uint64_t operand_bits = 0;
  static std::uint64_t get() {
    return 0;
  }
  static void set(std::uint64_t) {}
#endif
  std::uint64_t before_;
};

/// Operands that are denormal are taken for what they are while it lives: for kernels whose weights
/// become such for a moment, and which see to it that no result is one.
class TakeDenormals {
public:
  TakeDenormals() { FlushDenormals::set(flags_.before_ & ~FlushDenormals::operand_bits); }

private:
  FlushDenormals flags_; // Restores them.
};

} // namespace paceline::gpu::cpu
