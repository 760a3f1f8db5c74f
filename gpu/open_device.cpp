// Opens devices by name; no other file of this layer knows all back ends.
#include "base/parse_number.hpp"
#include "gpu/cpu/device.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/device.hpp"
#include "gpu/limits.hpp"
#include "gpu/sim/device.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace paceline::gpu {
namespace {

tl::unexpected<Error> bad_name(std::string_view name) {
  return fail(ErrorCode::invalid_argument, fmt::format("unknown device '{}'", name),
              "use cpu, cpu:0-3 (cores), cuda:0, cuda:0/0-15 (multiprocessors) or sim:PROFILE");
}

// Takes a number that is not negative off the front of `text`.
std::optional<int> take_whole(std::string_view& text) {
  const auto value = base::take_number<int>(text);
  return value.value_or(-1) < 0 ? std::nullopt : value;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected)
    return false;
  text.remove_prefix(1);
  return true;
}

// Parses e.g. "0-3,8" into a sorted list without repetitions.
std::optional<std::vector<int>> parse_cores(std::string_view text) {
  std::vector<int> cores;
  do {
    const auto first = take_whole(text);
    const auto last = first && take(text, '-') ? take_whole(text) : first;
    if (!first || !last || *last < *first || *last > limits::core_index_max)
      return std::nullopt;
    for (int core = *first; core <= *last; ++core)
      cores.push_back(core);
  } while (take(text, ','));
  if (!text.empty())
    return std::nullopt;
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

// Parses "0-15" or "16-".
std::optional<Multiprocessors> parse_multiprocessors(std::string_view text) {
  const auto first = take_whole(text);
  if (!first || !take(text, '-'))
    return std::nullopt;
  const auto last = text.empty() ? std::numeric_limits<int>::max() : take_whole(text);
  if (!last || *last < *first || !text.empty())
    return std::nullopt;
  return Multiprocessors{*first, *last};
}

} // namespace

std::string to_string(Multiprocessors those) {
  const bool open = those.last == std::numeric_limits<int>::max();
  return fmt::format("{}-{}", those.first, open ? "" : std::to_string(those.last));
}

Result<DeviceName> parse_device(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  const bool bare = colon == std::string_view::npos;
  std::string_view rest = bare ? std::string_view() : name.substr(colon + 1);
  DeviceName device;
  if (kind == "cpu") {
    device.kind = DeviceKind::cpu;
    if (bare)
      return device;
    auto cores = parse_cores(rest);
    if (!cores)
      return fail(ErrorCode::invalid_argument, fmt::format("bad core list in '{}'", name),
                  "write it like cpu:0-3 or cpu:0,2");
    device.cores = std::move(*cores);
    return device;
  }
  if (kind == "cuda") {
    device.kind = DeviceKind::cuda;
    const auto index = bare ? std::optional(0) : take_whole(rest);
    const bool whole = !index || !take(rest, '/');
    if (!whole)
      device.multiprocessors = parse_multiprocessors(rest);
    if (!index || (whole ? !rest.empty() : !device.multiprocessors))
      return fail(ErrorCode::invalid_argument, fmt::format("bad device number in '{}'", name),
                  "write it like cuda:0, or cuda:0/0-15 for some of its multiprocessors");
    device.index = *index;
    return device;
  }
  if (kind == "sim") {
    device.kind = DeviceKind::sim;
    device.profile = rest;
    if (auto profile = sim::parse_profile(device.profile); !profile)
      return tl::unexpected(profile.error());
    return device;
  }
  return bad_name(name);
}

Result<std::shared_ptr<Device>> open_device(std::string_view name, const DeviceOptions& options) {
  auto parsed = parse_device(name);
  if (!parsed)
    return tl::unexpected(parsed.error());
  switch (parsed->kind) {
  case DeviceKind::cpu: return cpu::open_device(*parsed, options);
  case DeviceKind::sim: return sim::open_device(*parsed, options);
  case DeviceKind::cuda: return cuda::open_device(*parsed, options);
  }
  return bad_name(name);
}

} // namespace paceline::gpu
