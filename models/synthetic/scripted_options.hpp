// The parameters of a scripted model, and the name that has them.
#pragma once

#include "paceline/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::models {

/// The parameters of a scripted model. Two with the same seed form a pair: the draft's rows overlap
/// the target's so that 1 - TV(p, q) is `acceptance` in every context.
struct ScriptedOptions {
  int vocabulary = 64;
  int memory = 3; ///< Tokens of context that the distribution depends on (0: none).
  std::uint64_t seed = 1;
  /// Sum of min(p, q) with the target's row, for the draft; 1 for the target.
  double acceptance = 1;
  int context = 1 << 20;
  /// The draft's likeliest other tokens replace a rejected one as often as on the demo pair at
  /// temperature 0.8: one of the first 1, 2, 4, 8 with probability 0.28, 0.40, 0.51, 0.61.
  bool ranked = false;
  bool peaked = false; ///< One token has 0.6 of the mass or more; a close draft finds it, too.
  /// The context is in a state (gpu/recurrence.hpp) in place of pages: tokens that were pushed into
  /// it, and cannot be taken back.
  bool recurrent = false;
};
/// Returns true for "scripted" and "scripted:...".
bool is_scripted(std::string_view name);
/// Reads "scripted", or "scripted:vocabulary=8,memory=2,seed=7,acceptance=0.8".
Result<ScriptedOptions> parse_scripted(std::string_view name);
/// Returns the name that says them all.
std::string canonical_name(const ScriptedOptions& options);
/// Returns what is wrong with them, unless a model can have them.
Result<void> check_scripted(const ScriptedOptions& options);

} // namespace paceline::models
