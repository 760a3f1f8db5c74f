#include "gpu/sim/profile.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace paceline::gpu::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* chen_2023 =
    "Chen et al. 2023, Accelerating large language model decoding with speculative sampling, "
    "section 4: 14.1 and 1.8 ms a token on 16 TPU v4. Prefill is not given: two operations per "
    "parameter and row at half of the machine's peak (16 x 275 T operations/s)";
constexpr const char* opt_a100 =
    "computed, not measured: sizes of Zhang et al. 2022, OPT (f16), read at 80 % of an A100's "
    "2,039 GB/s (80 GB; NVIDIA's data sheet); prefill at half of its 312 T operations/s";
constexpr const char* llama_a100 =
    "computed, not measured: sizes of Touvron et al. 2023, LLaMA (f16), and of the 68 M draft of "
    "Miao et al. 2023, SpecInfer, read at 80 % of an A100's 2,039 GB/s (80 GB; NVIDIA's data "
    "sheet); prefill at half of its 312 T operations/s";

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

// 2 bytes a parameter: 1.226 ms for each billion at 80 % of the A100's bandwidth; twelve to forty
// layers of a small model are bound by their kernels' launches instead (about 10 of 3 us a layer).
const std::vector<KnownProfile>& known_profiles() {
  static const std::vector<KnownProfile> known{
      {"chinchilla-70b", 14100us, 64us, chen_2023}, {"chinchilla-4b", 1800us, 4us, chen_2023},
      {"opt-13b", 15800us, 165us, opt_a100},        {"opt-125m", 360us, 2us, opt_a100},
      {"llama-7b", 8300us, 86us, llama_a100},       {"llama-68m", 140us, 1us, llama_a100},
  };
  return known;
}

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

base::Duration Profile::latency(const Work& work, bool behind) const {
  if (work.kind == Work::Kind::verify)
    return copy_per_row * work.rows;
  const base::Duration rows = (work.kind == Work::Kind::prefill ? prefill : decode).at(work.rows);
  return rows + (behind ? base::Duration() : launch) +
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
  std::string names;
  for (const KnownProfile& p : known_profiles()) {
    if (text == p.name)
      return make_profile(p.name, p.step, {}, p.per_prefill_row);
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
                            "14.1ms+0.2ms/row or 14.1ms+queue",
                            names));
  return make_profile(std::string(text), *step, per_row, per_row);
}

} // namespace paceline::gpu::sim
