// The numbers of a request that change the target's distribution, with their names and limits. All
// code that reads such numbers uses this table: the library, the command line, HTTP, a chat's
// commands, generation_config.json and nodes.
#pragma once

#include "paceline/request.hpp"
#include "sampling/warp.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace paceline::sampling {

struct NumberField {
  std::string_view name; ///< Name of the member of `Sampling`, and in JSON.
  const char* effect;    ///< Description for people.
  double least;
  double most;
  std::optional<float> Sampling::*asked;
  float Warping::*value;

  /// Returns whether the value may be `number`; NaN may not be.
  bool allows(float number) const { return number >= float(least) && number <= float(most); }
};

inline constexpr NumberField number_fields[] = {
    {"temperature", "0: greedy", 0, 100, &Sampling::temperature, &Warping::temperature},
    {"top_p", "Draw among the likeliest tokens that together have probability X; 1: all", 1e-6, 1,
     &Sampling::top_p, &Warping::top_p},
    {"min_p", "Draw among tokens at least X times as likely as the likeliest; 0: all", 0, 1,
     &Sampling::min_p, &Warping::min_p},
    {"repetition_penalty", "Divide the logits of tokens seen before, in prompt or output; 1: off",
     1e-6, 100, &Sampling::repetition_penalty, &Warping::repetition_penalty},
    {"presence_penalty", "Lower the logits of tokens that the output has; 0: off", -2, 2,
     &Sampling::presence_penalty, &Warping::presence_penalty},
    {"frequency_penalty", "The same, times how often the output has them; 0: off", -2, 2,
     &Sampling::frequency_penalty, &Warping::frequency_penalty},
};

/// The largest top-k: how many of the likeliest tokens are kept; 0: all.
inline constexpr int top_k_max = 1 << 30;

/// Returns the field of that name, which must exist.
constexpr const NumberField& number_field(std::string_view name) {
  return *std::ranges::find(number_fields, name, &NumberField::name);
}

} // namespace paceline::sampling
