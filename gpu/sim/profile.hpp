// The time that a simulated device takes for its work.
#pragma once

#include "base/clock.hpp"
#include "gpu/lane.hpp"
#include "gpu/sim/weight_width.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::gpu::sim {

/// Time as a function of rows: straight lines between points, of which the last one continues;
/// below the first point its time.
class Curve {
public:
  using Point = std::pair<int, base::Duration>;
  Curve() = default;
  /// points: in order of rows.
  explicit Curve(std::vector<Point> points) : points_(std::move(points)) {}
  base::Duration at(int rows) const;
  Curve divided_by(int parts) const;

private:
  std::vector<Point> points_;
};

/// The times of attention, apart from all else.
struct Attention {
  base::Duration step{};         ///< Time of every pass.
  base::Duration decode_reads{}; ///< Additional time per million Work::decode_reads.
  base::Duration prompt_reads{}; ///< Additional time per million Work::prompt_reads.
};

struct Profile {
  std::string name;
  Curve decode; ///< Time of a pass of so many rows, draft and target alike.
  Curve prefill;
  /// Time of reading the weights, if each has 16 bits. Others take theirs, by `width`. No pass
  /// takes less. 0: the curves say all.
  base::Duration weights{};
  std::shared_ptr<const WeightWidth> width; ///< Of the weights on the device; null: 16 bits.
  Attention attention;
  base::Duration launch{}; ///< Additional time of passes that did not stand ready behind another.
  bool queues = false;     ///< Holds a piece ready behind the running one, as a GPU's stream does.
  /// Additional time of every pass, for each sequence and each token of the longest context.
  base::Duration per_context_token{};
  /// Time of copying the result of each judged row to the host. Judging itself (Work::Kind::verify)
  /// is part of the pass.
  base::Duration copy_per_row{};
  /// Additional time of a pass for each device behind the first of a group: to hand rows on to it,
  /// or for what it adds to the sums of all shards.
  base::Duration hop{};
  double jitter = 0; ///< A piece takes from 1 - jitter to 1 + jitter of the times given here.

  /// Returns the time of a piece. behind: it stands ready behind another.
  base::Duration latency(const Work& work, bool behind = false) const;
  /// Returns the rows of a prompt that take as long, by themselves, as a step of one row: in a step
  /// of fewer, rows are cheap.
  double balanced_rows() const;
  /// Returns the time of reading the weights; see `weights`.
  base::Duration reading() const;
  /// Returns the profile of one of so many equal stages or shards; each has its own launches,
  /// copies and hop.
  Profile divided_by(int parts) const;
};

/// Returns a profile by name (`known_profiles`), from a file ("a100.json"), by the sizes of a model
/// and what programs reach of a data sheet ("7b@a100"), or from latencies: "14.1ms", "250us",
/// "14.1ms+0.2ms/row"; "/4" after any of these means one stage of four, and "+20us/hop" behind it
/// gives Profile::hop.
Result<Profile> parse_profile(std::string_view text);
/// Loads a profile from a file, whose format docs/simulated.md describes (profile_file.cpp).
Result<Profile> load_profile(const std::string& path);

/// A built-in profile, and the source of its numbers.
struct KnownProfile {
  const char* name;
  base::Duration step; ///< Time of a pass of a few rows, which reads the weights once.
  base::Duration per_prefill_row;
  const char* source;
  /// Number of rows, of prompts or not, that take no longer than one; each further row adds
  /// per_prefill_row. 0: each row of a prompt adds it, other rows never do.
  int free_rows = 0;
  Attention attention{};
};
const std::vector<KnownProfile>& known_profiles();

} // namespace paceline::gpu::sim
