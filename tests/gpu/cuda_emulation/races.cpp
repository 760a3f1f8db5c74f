#include "tests/gpu/cuda_emulation/races.hpp"

#include <fmt/format.h>
#include <functional>

namespace cuda_emulation {
namespace {

/// An access is looked at from two to two bytes: the first of a pair stands for both. That is half
/// the work, and no kernel writes single bytes that others of its grid read in wider words.
constexpr std::size_t bytes_seen = 2;
constexpr std::size_t pages_kept = 1 << 14; ///< From one grid to the next.

} // namespace

void Races::begin_grid() {
  ++grid_;
  if (pages_.size() > pages_kept) {
    pages_.clear();
    last_ = nullptr;
  }
}

void Races::begin_cluster(unsigned number) {
  cluster_ = number;
  shared_.clear();
}

void Races::forget(std::span<const std::byte> shared) {
  shared_.push_back(shared);
  for (std::size_t i = 0; i < shared.size(); ++i)
    byte(shared.data() + i) = {};
}

Races::Trace Races::trace_of(const Moment& now) const {
  return {cluster_,
          now.cluster_barriers,
          now.barriers,
          now.warp_barriers,
          std::uint16_t(now.thread),
          std::uint16_t(now.warp),
          std::uint8_t(now.block),
          Trace::Of::thread};
}

/// Whether all that left the trace did so before `now`.
bool Races::ordered(const Trace& before, const Moment& now) const {
  if (before.of == Trace::Of::nobody)
    return true;
  if (before.of == Trace::Of::clusters || before.cluster != cluster_)
    return false;
  if (before.of == Trace::Of::thread && before.thread == now.thread)
    return true;
  const bool same_block = before.of <= Trace::Of::block && before.block == now.block;
  const bool same_warp = before.of <= Trace::Of::warp && before.warp == now.warp;
  return before.cluster_barriers < now.cluster_barriers ||
         (same_block && before.barriers < now.barriers) ||
         (same_warp && before.warp_barriers < now.warp_barriers);
}

/// The trace of both, of which none is before the other.
Races::Trace Races::joined(const Trace& before, const Trace& now) {
  Trace both = now;
  if (before.cluster != now.cluster || before.of == Trace::Of::clusters)
    both.of = Trace::Of::clusters;
  else if (before.block != now.block || before.of == Trace::Of::cluster)
    both.of = Trace::Of::cluster;
  else if (before.warp != now.warp || before.of == Trace::Of::block)
    both.of = Trace::Of::block;
  else
    both.of = Trace::Of::warp;
  return both;
}

Races::Byte& Races::byte(const std::byte* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t number = address / page_bytes;
  if (!last_ || number != last_number_) {
    auto& page = pages_[number];
    if (!page)
      page = std::make_unique<Page>();
    last_ = page.get();
    last_number_ = number;
  }
  if (last_->grid != grid_) {
    last_->bytes.fill({});
    last_->grid = grid_;
  }
  return last_->bytes[address % page_bytes];
}

const char* Races::wrong(const Byte& byte, Access how, const Moment& now) const {
  if (byte.in_flight && how != Access::copy_arrives)
    return "touches what an asynchronous copy that nobody has waited for writes";
  const bool reads = how == Access::read || how == Access::atomic;
  const bool both_atomic = how == Access::atomic && byte.atomic;
  if (!both_atomic && !ordered(byte.written, now))
    return reads ? "reads what another writes, with no barrier between"
                 : "writes what another writes, with no barrier between";
  if (how != Access::read && !ordered(byte.read, now))
    return "writes what another reads, with no barrier between";
  return nullptr;
}

void Races::remember(Byte& byte, Access how, const Moment& now) const {
  const Trace trace = trace_of(now);
  if (how == Access::read) {
    byte.read = ordered(byte.read, now) ? trace : joined(byte.read, trace);
    return;
  }
  byte.written = ordered(byte.written, now) ? trace : joined(byte.written, trace);
  byte.read = {};
  byte.atomic = how == Access::atomic;
  byte.in_flight = how == Access::copy_begins;
}

std::string Races::where(const std::byte* at) const {
  for (const auto& shared : shared_)
    if (!std::less<>()(at, shared.data()) && std::less<>()(at, shared.data() + shared.size()))
      return fmt::format("byte {} of shared memory", at - shared.data());
  return "global memory";
}

std::optional<std::string> Races::touch(const std::byte* at, std::size_t bytes, Access how,
                                        const Moment& now) {
  for (std::size_t i = 0; i < bytes; i += bytes_seen) {
    Byte& touched = byte(at + i);
    if (const char* const what = wrong(touched, how, now)) {
      const bool by_writer = touched.in_flight || !ordered(touched.written, now);
      const Trace& other = by_writer ? touched.written : touched.read;
      return fmt::format("{} ({}, thread {} of cluster {})", what, where(at + i), other.thread,
                         other.cluster);
    }
    remember(touched, how, now);
  }
  return std::nullopt;
}

} // namespace cuda_emulation
