// Flushing of denormal numbers to zero on every thread that runs operations: it is part of the
// numeric setting, which is the same on all of them.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline::gpu::cpu {

/// A scope in which denormal numbers are flushed; its end restores the previous setting.
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
  static constexpr std::uint64_t flush_bits = std::uint64_t(1) << 24; // FZ: both.
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

/// A scope in which denormal operands are not flushed, for kernels whose weights become denormal
/// for a moment, and whose results never are.
class TakeDenormals {
public:
  TakeDenormals() { FlushDenormals::set(flags_.before_ & ~FlushDenormals::operand_bits); }

private:
  FlushDenormals flags_; // Restores the previous setting.
};

} // namespace paceline::gpu::cpu
