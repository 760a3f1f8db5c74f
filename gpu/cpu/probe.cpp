#include "gpu/cpu/probe.hpp"

#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/probe.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {

// Eight sums, so that no load waits for another; lines are asked for as early as the products do.
std::uint64_t Read(std::span<const std::byte> bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::uint64_t, 8> d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t line = 64 / sizeof(std::uint64_t);
  constexpr std::size_t ahead = 16384 / sizeof(std::uint64_t);
  const auto* at = reinterpret_cast<const std::uint64_t*>(bytes.data());
  const auto* const end = at + bytes.size() / sizeof(std::uint64_t);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (; at + 8 * lanes <= end; at += 8 * lanes) {
    for (std::size_t word = 0; word < 8 * lanes; word += line)
      hwy::Prefetch(at + ahead + word);
    s0 = hn::Xor(s0, hn::LoadU(d, at));
    s1 = hn::Xor(s1, hn::LoadU(d, at + lanes));
    s2 = hn::Xor(s2, hn::LoadU(d, at + 2 * lanes));
    s3 = hn::Xor(s3, hn::LoadU(d, at + 3 * lanes));
    s4 = hn::Xor(s4, hn::LoadU(d, at + 4 * lanes));
    s5 = hn::Xor(s5, hn::LoadU(d, at + 5 * lanes));
    s6 = hn::Xor(s6, hn::LoadU(d, at + 6 * lanes));
    s7 = hn::Xor(s7, hn::LoadU(d, at + 7 * lanes));
  }
  s0 =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, hn::ShiftRight<8>(s0))); // intrinsics add signed lanes
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
