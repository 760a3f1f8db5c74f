#include "gpu/sim/profile.hpp"

#include "base/parse_number.hpp"
#include "gpu/sim/data_sheet.hpp"

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
  const int divisor = base::parse_number<int>(text.substr(slash + 1)).value_or(0);
  if (divisor < 1)
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
  part.weights /= parts;
  part.attention.step /= parts;
  part.attention.decode_reads /= parts;
  part.attention.prompt_reads /= parts;
  part.per_context_token /= parts;
  return part;
}

base::Duration Profile::reading() const {
  constexpr double bits = 16;
  return width ? base::from_seconds(base::seconds(weights) * width->bits() / bits) : weights;
}

base::Duration Profile::latency(const Work& work, bool behind) const {
  if (work.kind == Work::Kind::verify)
    return copy_per_row * work.rows;
  const base::Duration rows =
      std::max(reading(), (work.kind == Work::Kind::prefill ? prefill : decode).at(work.rows));
  const double reads = double(attention.decode_reads.count()) * double(work.decode_reads) +
                       double(attention.prompt_reads.count()) * double(work.prompt_reads);
  const double context =
      double(per_context_token.count()) * double(work.sequences) * double(work.context);
  return rows + (behind ? base::Duration() : launch) + attention.step +
         base::Duration(std::llround((reads * 1e-6 + context) * work.cache_width));
}

double Profile::balanced_rows() const {
  constexpr int many = 1 << 16; // Beyond all points of a curve, where rows bound it.
  const base::Duration per_row = (prefill.at(2 * many) - prefill.at(many)) / many;
  return base::seconds(std::max(reading(), decode.at(1))) / base::seconds(per_row);
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

// Returns the number of weights that "7b" or "350m" says; none if it says none.
std::optional<double> weights_of(std::string_view text) {
  double count = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), count, std::chars_format::fixed);
  const std::string_view unit = text.substr(std::size_t(end - text.data()));
  constexpr double most = 1e5; // Of either unit.
  if (error != std::errc() || !(count > 0) || count > most || (unit != "m" && unit != "b"))
    return std::nullopt;
  return count * (unit == "m" ? 1e6 : 1e9);
}

// Returns the profile of a model of that size on a device; none if `text` is not "7b@a100".
std::optional<Profile> sized_profile(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == text.npos)
    return std::nullopt;
  const auto weights = weights_of(text.substr(0, at));
  const DataSheet* sheet = find_data_sheet(text.substr(at + 1));
  if (!weights || !sheet)
    return std::nullopt;
  const DataSheet reached = sheet->reached();
  const base::Duration row = base::from_seconds(reached.row_seconds(*weights));
  Profile profile;
  profile.name = text;
  profile.decode = profile.prefill = Curve({{0, {}}, {1, row}});
  profile.weights = base::from_seconds(reached.read_seconds(2 * *weights));
  return profile;
}

// Returns the profile of latencies; none if `text` is not "14.1ms" or "14.1ms+0.2ms/row".
std::optional<Profile> plain_profile(std::string_view text) {
  std::string_view rest = text;
  const auto step = take_duration(rest);
  std::optional<base::Duration> per_row = base::Duration();
  if (step && rest.starts_with('+')) {
    rest.remove_prefix(1);
    per_row = take_duration(rest);
    if (rest != "/row")
      return std::nullopt;
    rest = {};
  }
  if (!step || !per_row || !rest.empty())
    return std::nullopt;
  return make_profile(std::string(text), *step, *per_row, *per_row);
}

// Returns the profile of what is before a suffix, changed as the suffix says. text: with it.
template <class Change>
Result<Profile> changed(std::string_view text, std::string_view before, const Change& change) {
  return parse_profile(before).map([&](Profile&& profile) {
    change(profile);
    profile.name = text;
    return std::move(profile);
  });
}

} // namespace

Result<Profile> parse_profile(std::string_view text) {
  if (text.ends_with(".json"))
    return load_profile(std::string(text));
  constexpr std::string_view queued = "+queue";
  if (text.ends_with(queued))
    return changed(text, text.substr(0, text.size() - queued.size()),
                   [](Profile& profile) { profile.queues = true; });
  std::string_view before = text;
  if (const auto hop = take_hop(before))
    return changed(text, before, [&](Profile& profile) { profile.hop = *hop; });
  if (const int parts = take_divisor(before); before.size() < text.size())
    return changed(text, before, [&](Profile& profile) { profile = profile.divided_by(parts); });
  std::string names;
  for (const KnownProfile& p : known_profiles()) {
    if (text == p.name)
      return make_profile(p);
    names += std::string(p.name) + ", ";
  }
  if (auto sized = sized_profile(text))
    return std::move(*sized);
  if (auto plain = plain_profile(text))
    return std::move(*plain);
  return fail(
      ErrorCode::invalid_argument, fmt::format("unknown simulated device 'sim:{}'", text),
      fmt::format("use {}a size on a device such as 7b@a100, a file such as a100.json, or "
                  "latencies such as 14.1ms, 14.1ms+0.2ms/row or 14.1ms+queue; /4 behind "
                  "it is a quarter of it, and +20us/hop the way to another device of a group",
                  names));
}

} // namespace paceline::gpu::sim
