// A record of one way of decoding, and the view of it at any time.
#pragma once

#include "paceline/event.hpp"

#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

struct Recording {
  struct Step {
    double seconds = 0; ///< Time since the request was submitted.
    std::string text;
    int tokens = 0;
  };

  std::string name; ///< "plain", "synchronous", "overlapped", "mxfp6+draft"
  SpeculationMode mode = SpeculationMode::off;
  int engine = 0;      ///< Which of the race's engines decodes.
  std::string weights; ///< Format that the column names; those of one format write the same text.
  std::vector<Step> steps;
  std::vector<TokenId> tokens;
  std::optional<Finished> end; ///< Set once it ended.

  /// Notes the tokens and text that came at that time.
  void add(const Delta& delta, double seconds);
  /// Returns the time from the submission to the last token; 0 before the end.
  double seconds() const;
};

/// The view of a recording `seconds` after the start.
struct RaceLane {
  std::string name;
  std::string text;
  int tokens = 0;
  double rate = 0; ///< Tokens per second so far.
  bool finished = false;
  double seconds = 0; ///< Total time, once finished.
};
RaceLane lane_at(const Recording& recording, double seconds);

/// Returns "overlapped wins: 1.42 times as fast as plain, 1.10 times as fast as synchronous"; all
/// must have ended.
std::string verdict(const std::vector<Recording>& recordings);

} // namespace paceline::apps
