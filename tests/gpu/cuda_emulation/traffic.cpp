#include "tests/gpu/cuda_emulation/traffic.hpp"

#include "tests/gpu/cuda_emulation/state.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace cuda_emulation {
namespace {

constexpr std::uintptr_t sector_bytes = 32;
constexpr std::uintptr_t bank_bytes = 4;
constexpr std::uintptr_t banks = 32;
constexpr unsigned lanes_of_warp = 32;

using Lane = TrafficCount::Lane;
using Units = std::set<std::uintptr_t>; ///< Numbers of sectors, or of words.

Units units_of(std::span<const Lane> lanes, std::uintptr_t unit_bytes) {
  Units units;
  for (const Lane& lane : lanes)
    for (auto unit = lane.at / unit_bytes; unit <= (lane.at + lane.bytes - 1) / unit_bytes; ++unit)
      units.insert(unit);
  return units;
}

/// Passes over the banks for lanes whose words come together.
std::uint64_t passes(std::span<const Lane> lanes) {
  std::array<std::uint64_t, banks> words{};
  for (const std::uintptr_t word : units_of(lanes, bank_bytes))
    ++words[word % banks];
  return *std::ranges::max_element(words);
}

/// The banks serve 16 lanes together if each accesses 8 bytes, and 8 lanes if each accesses 16.
void add_shared(Traffic& to, std::span<const Lane> lanes) {
  const auto together =
      unsigned(lanes_of_warp / std::max<std::size_t>(lanes.front().bytes / bank_bytes, 1));
  while (!lanes.empty()) {
    const auto end = std::ranges::find_if(lanes, [&](const Lane& lane) {
      return lane.thread / together != lanes.front().thread / together;
    });
    const auto count = std::size_t(end - lanes.begin());
    to.touched += passes(lanes.first(count));
    ++to.least;
    lanes = lanes.subspan(count);
  }
}

void add_global(Traffic& to, std::span<const Lane> lanes, std::size_t bytes) {
  to.touched += units_of(lanes, sector_bytes).size();
  to.least += (bytes + sector_bytes - 1) / sector_bytes;
}

auto instruction(const Lane& lane) {
  return std::tuple(lane.place, lane.shared, lane.how, lane.thread / lanes_of_warp, lane.time);
}

} // namespace

void TrafficCount::add(std::vector<Lane> block, std::size_t shared_bytes) {
  std::ranges::sort(block, {}, [](const Lane& lane) {
    return std::tuple_cat(instruction(lane), std::tuple(lane.thread));
  });
  const std::lock_guard lock(mutex_);
  shared_bytes_ = std::max(shared_bytes_, shared_bytes);
  for (auto first = block.begin(); first != block.end();) {
    const auto last = std::find_if(first, block.end(), [&](const Lane& lane) {
      return instruction(lane) != instruction(*first);
    });
    add_instruction({first, last});
    first = last;
  }
}

void TrafficCount::add_instruction(std::span<const Lane> lanes) {
  const Lane& one = lanes.front();
  if (!one.shared && !is_allocated(reinterpret_cast<const void*>(one.at)))
    return;
  Traffic& to = places_[{one.place, one.shared, one.how}];
  to.place = one.place;
  to.shared = one.shared;
  to.how = one.how;
  const std::size_t bytes = units_of(lanes, 1).size();
  ++to.instructions;
  to.bytes += bytes;
  if (one.shared)
    add_shared(to, lanes);
  else
    add_global(to, lanes, bytes);
}

std::size_t TrafficCount::shared_bytes() const {
  const std::lock_guard lock(mutex_);
  return shared_bytes_;
}

std::vector<Traffic> TrafficCount::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Traffic> all;
  for (const auto& [place, traffic] : places_)
    all.push_back(traffic);
  return all;
}

void BlockTraffic::begin(std::span<const std::byte> shared) {
  shared_ = shared;
  times_.clear();
  lanes_.clear();
}

void BlockTraffic::touch(const std::byte* at, std::size_t bytes, Access how, unsigned thread,
                         const void* place) {
  if (how == Access::copy_arrives || how == Access::atomic)
    return;
  const std::ptrdiff_t offset = at - shared_.data();
  const bool shared = offset >= 0 && offset < std::ptrdiff_t(shared_.size());
  // Shared memory begins at a bank's first word.
  const auto address = shared ? std::uintptr_t(offset) : reinterpret_cast<std::uintptr_t>(at);
  lanes_.push_back({place, times_[{thread, place, how}]++, thread, shared, how, address, bytes});
}

} // namespace cuda_emulation
