#include "gpu/cpu/probe.hpp"

#include "gpu/cpu/highway_targets.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/probe.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {

// Reads four streams side by side, each with two sums, so that no load waits for another; lines are
// prefetched 4 KiB ahead. One stream is an eighth to a quarter slower on Intel's server processors.
std::uint64_t Read(std::span<const std::byte> bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::uint64_t, 8> d;
  constexpr std::size_t line = 64 / sizeof(std::uint64_t);
  constexpr std::size_t ahead = 4096 / sizeof(std::uint64_t);
  const std::size_t half = hn::Lanes(d);
  const std::size_t step = std::max(2 * half, line);
  const std::size_t stream = bytes.size() / (4 * step * sizeof(std::uint64_t)) * step;
  const auto* first = reinterpret_cast<const std::uint64_t*>(bytes.data());
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const auto add = [&](auto& even, auto& odd, const std::uint64_t* at) {
    for (std::size_t word = 0; word < step; word += line)
      hwy::Prefetch(at + ahead + word);
    for (std::size_t word = 0; word < step; word += 2 * half) {
      even = hn::Xor(even, hn::LoadU(d, at + word));
      odd = hn::Xor(odd, hn::LoadU(d, at + word + half));
    }
  };
  for (const auto* at = first; at != first + stream; at += step) {
    add(s0, s1, at);
    add(s2, s3, at + stream);
    add(s4, s5, at + 2 * stream);
    add(s6, s7, at + 3 * stream);
  }
  s0 =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, hn::ShiftRight<8>(s0))); // Intrinsics add signed lanes.
}

} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::gpu::cpu {

HWY_EXPORT(Read);

std::uint64_t read_once(std::span<const std::byte> bytes) {
  return HWY_DYNAMIC_DISPATCH(Read)(bytes);
}

} // namespace paceline::gpu::cpu
#endif
