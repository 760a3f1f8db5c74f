// What a simulated device charges for its work.
#pragma once

#include "base/clock.hpp"
#include "gpu/lane.hpp"
#include "paceline/error.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::gpu::sim {

/// Time by rows: straight lines between points, the last one going on; the first point's time
/// below it.
class Curve {
public:
  using Point = std::pair<int, base::Duration>;
  Curve() = default;
  /// points: by growing rows.
  explicit Curve(std::vector<Point> points) : points_(std::move(points)) {}
  base::Duration at(int rows) const;
  Curve divided_by(int parts) const;

private:
  std::vector<Point> points_;
};

/// What attention takes, apart from all else.
struct Attention {
  base::Duration step{};         ///< Of every pass,
  base::Duration decode_reads{}; ///< more for a million Work::decode_reads,
  base::Duration prompt_reads{}; ///< and for a million Work::prompt_reads.
};

struct Profile {
  std::string name;
  Curve decode; ///< A pass of so many rows; draft and target alike.
  Curve prefill;
  Attention attention;
  base::Duration launch{}; ///< More, of every pass that did not stand ready behind another.
  bool queues = false;     ///< Holds a piece ready behind the one at work, as a GPU's stream does.
  /// More, of every pass: for each sequence and token of the longest context.
  base::Duration per_context_token{};
  /// Judging (Work::Kind::verify) is part of the pass; what goes back to the host costs this much
  /// for each judged row.
  base::Duration copy_per_row{};
  double jitter = 0; ///< A piece takes from 1 - jitter to 1 + jitter of what is said here.

  /// behind: the piece stands ready behind another.
  base::Duration latency(const Work& work, bool behind = false) const;
  /// A device for one of so many stages of equal time: launches and copies are each one's own.
  Profile divided_by(int parts) const;
};

/// A profile by name (`known_profiles`), from a file ("a100.json"), or latencies: "14.1ms",
/// "250us", "14.1ms+0.2ms/row"; "/4" behind any of these is a stage of four.
Result<Profile> parse_profile(std::string_view text);
/// profile_file.cpp: docs/simulated.md says what stands in it.
Result<Profile> load_profile(const std::string& path);

/// A profile that is built in, and where its numbers come from.
struct KnownProfile {
  const char* name;
  base::Duration step; ///< A pass of a few rows, which reads the weights once.
  base::Duration per_prefill_row;
  const char* source;
  /// So many rows, of prompts or not, take no longer than one, and each further one
  /// per_prefill_row. 0: rows of prompts take that from the first on, others never.
  int free_rows = 0;
  Attention attention{};
};
const std::vector<KnownProfile>& known_profiles();

} // namespace paceline::gpu::sim
