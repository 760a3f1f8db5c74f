#include "gpu/sim/profile.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace paceline::gpu::sim {
namespace {

using namespace std::chrono_literals;

// Takes a duration such as "14.1ms" off the front of `text`.
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

// Takes a suffix such as "+20us/hop" off the end of `text`; none if there is none.
std::optional<base::Duration> take_hop(std::string_view& text) {
  constexpr std::string_view per_hop = "/hop";
  const std::size_t plus = text.rfind('+');
  if (plus == std::string_view::npos || !text.ends_with(per_hop))
    return std::nullopt;
  std::string_view rest = text.substr(plus + 1);
  const auto hop = take_duration(rest);
  if (!hop || rest != per_hop)
    return std::nullopt;
  text = text.substr(0, plus);
  return hop;
}

// Takes a divisor such as "/8" off the end of `text`; 1 if there is none.
int take_divisor(std::string_view& text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos)
    return 1;
  int divisor = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + slash + 1, end, divisor);
  if (error != std::errc() || last != end || divisor < 1)
    return 1;
  text = text.substr(0, slash);
  return divisor;
}

} // namespace

base::Duration Curve::at(int rows) const {
  if (points_.empty())
    return {};
  if (rows <= points_.front().first || points_.size() == 1)
    return points_.front().second;
  std::size_t upper = 1;
  while (upper + 1 < points_.size() && points_[upper].first < rows)
    ++upper;
  const auto& [low, from] = points_[upper - 1];
  const auto& [high, to] = points_[upper];
  return from + (to - from) * (rows - low) / (high - low);
}

Curve Curve::divided_by(int parts) const {
  Curve part = *this;
  for (Point& point : part.points_)
    point.second /= parts;
  return part;
}

Profile Profile::divided_by(int parts) const {
  Profile part = *this;
  part.decode = decode.divided_by(parts);
  part.prefill = prefill.divided_by(parts);
  part.attention.step /= parts;
  part.attention.decode_reads /= parts;
  part.attention.prompt_reads /= parts;
  part.per_context_token /= parts;
  return part;
}

base::Duration Profile::latency(const Work& work, bool behind) const {
  if (work.kind == Work::Kind::verify)
    return copy_per_row * work.rows;
  const base::Duration rows = (work.kind == Work::Kind::prefill ? prefill : decode).at(work.rows);
  const double reads = double(attention.decode_reads.count()) * double(work.decode_reads) +
                       double(attention.prompt_reads.count()) * double(work.prompt_reads);
  return rows + (behind ? base::Duration() : launch) + attention.step +
         base::Duration(std::llround(reads * 1e-6)) +
         per_context_token * std::int64_t(work.sequences) * work.context;
}

namespace {

Profile make_profile(std::string name, base::Duration step, base::Duration per_row,
                     base::Duration per_prefill_row) {
  Profile profile;
  profile.name = std::move(name);
  profile.decode = Curve({{1, step}, {2, step + per_row}});
  profile.prefill = Curve({{0, step}, {1, step + per_prefill_row}});
  return profile;
}

Profile make_profile(const KnownProfile& known) {
  Profile profile = make_profile(known.name, known.step, {}, known.per_prefill_row);
  if (known.free_rows > 0)
    profile.decode = profile.prefill = Curve(
        {{known.free_rows, known.step}, {known.free_rows + 1, known.step + known.per_prefill_row}});
  profile.attention = known.attention;
  return profile;
}

} // namespace

Result<Profile> parse_profile(std::string_view text) {
  if (text.ends_with(".json"))
    return load_profile(std::string(text));
  constexpr std::string_view queued = "+queue";
  if (text.ends_with(queued)) {
    auto profile = parse_profile(text.substr(0, text.size() - queued.size()));
    if (profile) {
      profile->name = text;
      profile->queues = true;
    }
    return profile;
  }
  std::string_view whole = text;
  if (const auto hop = take_hop(whole)) {
    auto profile = parse_profile(whole);
    if (profile) {
      profile->hop = *hop;
      profile->name = text;
    }
    return profile;
  }
  if (const int parts = take_divisor(whole); whole.size() < text.size()) {
    auto profile = parse_profile(whole);
    if (profile) {
      *profile = profile->divided_by(parts);
      profile->name = text;
    }
    return profile;
  }
  std::string names;
  for (const KnownProfile& p : known_profiles()) {
    if (text == p.name)
      return make_profile(p);
    names += std::string(p.name) + ", ";
  }
  std::string_view rest = text;
  const auto step = take_duration(rest);
  bool good = step.has_value();
  base::Duration per_row{};
  if (good && rest.starts_with('+')) {
    rest.remove_prefix(1);
    const auto slope = take_duration(rest);
    good = slope && rest == "/row";
    per_row = slope.value_or(base::Duration());
    rest = {};
  }
  if (!good || !rest.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("unknown simulated device 'sim:{}'", text),
                fmt::format("use {}a file such as a100.json, or latencies such as 14.1ms, "
                            "14.1ms+0.2ms/row or 14.1ms+queue; /4 behind it is a quarter of it, "
                            "and +20us/hop the way to another device of a group",
                            names));
  return make_profile(std::string(text), *step, per_row, per_row);
}

} // namespace paceline::gpu::sim
