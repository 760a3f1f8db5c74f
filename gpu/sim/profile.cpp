#include "gpu/sim/profile.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace paceline::gpu::sim {
namespace {

using namespace std::chrono_literals;

struct KnownProfile {
  const char* name;
  base::Duration step;
  base::Duration per_prefill_row;
};

// Steps: Chen et al. 2023, "Accelerating large language model decoding with speculative sampling",
// section 4 (Chinchilla 70B and its 4B draft on 16 TPU v4: 14.1 ms and 1.8 ms a token). They give
// no prefill times: those are two operations per parameter and row at half of the machine's peak
// (16 x 275 T operations/s).
constexpr std::array known{
    KnownProfile{"chinchilla-70b", 14100us, 64us},
    KnownProfile{"chinchilla-4b", 1800us, 4us},
};

// "14.1ms" at the front of `text`, which is cut.
std::optional<base::Duration> take_duration(std::string_view& text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0)
    return std::nullopt;
  text.remove_prefix(std::size_t(end - text.data()));
  double unit = 0;
  for (const auto& [suffix, seconds] :
       {std::pair<std::string_view, double>{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}})
    if (text.starts_with(suffix)) {
      text.remove_prefix(suffix.size());
      unit = seconds;
      break;
    }
  constexpr double longest_seconds = 3600;
  if (unit == 0 || value * unit > longest_seconds)
    return std::nullopt;
  return base::Duration(std::llround(value * unit * 1e9));
}

} // namespace

base::Duration Profile::latency(const Work& work) const {
  switch (work.kind) {
  case Work::Kind::prefill: return step + per_prefill_row * work.rows;
  case Work::Kind::decode:
  case Work::Kind::draft: return step + per_row * std::max(0, work.rows - 1);
  case Work::Kind::verify: break;
  }
  return {};
}

Result<Profile> parse_profile(std::string_view text) {
  std::string names;
  for (const KnownProfile& p : known) {
    if (text == p.name)
      return Profile{p.name, p.step, {}, p.per_prefill_row};
    names += std::string(p.name) + ", ";
  }
  Profile profile{std::string(text), {}, {}, {}};
  std::string_view rest = text;
  const auto step = take_duration(rest);
  bool good = step.has_value();
  if (good && rest.starts_with('+')) {
    rest.remove_prefix(1);
    const auto slope = take_duration(rest);
    good = slope && rest == "/row";
    if (good)
      profile.per_row = profile.per_prefill_row = *slope;
    rest = {};
  }
  if (!good || !rest.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("unknown simulated device 'sim:{}'", text),
                fmt::format("use {}or latencies such as 14.1ms or 14.1ms+0.2ms/row", names));
  profile.step = *step;
  return profile;
}

} // namespace paceline::gpu::sim
