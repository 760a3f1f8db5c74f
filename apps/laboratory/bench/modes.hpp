// Decodes a workload in each mode, in turn.
#pragma once

#include "paceline/engine.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace paceline::apps {

/// One mode's figures, medians over the repetitions.
struct ModeResult {
  SpeculationMode mode = SpeculationMode::off;
  double tokens_per_second = 0; ///< Rate after each prompt's first token, over all prompts.
  double spread = 0;            ///< Spread of tokens_per_second: (largest - smallest) / median.
  double acceptance_rate = 0;
  double tokens_per_round = 0;
  double window = 0; ///< Mean over the prompts of the window in use at the end.
  double lookahead_hit_rate = 0;
  double hits_per_round = 0; ///< The share of all rounds, also of those without a lookahead.
  double overlap_ratio = 0;  ///< Share of drafting time that lay under target time.
  double time_to_first_token_seconds = 0;
  double overhead_seconds_per_round = 0; ///< Round time that no lane was working for.
  double overhead_share = 0;             ///< The same time over that of the round.
  std::map<std::string, int> chosen; ///< Prompts by the mode they ended in, over all repetitions.
};

struct ModesPlan {
  std::vector<std::string> prompts;
  std::vector<SpeculationMode> modes;
  int repetitions = 0;
  Request request; ///< Each request without prompt, mode and seed.
};

/// Decodes one prompt after the other, each in all modes before the next, so that other work of the
/// machine affects all of them. A look-up finds earlier answers of the same mode and repetition
/// only. beside: another engine that decodes plainly in turn with them, and whose figures are the
/// last; null: none. progress: called with 0 to 1.
Result<std::vector<ModeResult>> measure_modes(Engine& engine, Engine* beside, const ModesPlan& plan,
                                              const std::function<void(double)>& progress);

} // namespace paceline::apps
