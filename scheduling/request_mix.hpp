// How many rows of prompts a step should have while requests wait for a place.
#pragma once

#include "scheduling/step_cost.hpp"

#include <optional>

namespace paceline::scheduling {

/// What a request asks of the target.
struct RequestWork {
  double prompt_rows = 0; ///< That are fed of its prompt; what is cached is not.
  double rounds = 0;      ///< Steps that write its answer.
};

/// What requests are like, by those that ended, and the size of steps that serves most of them.
///
/// Rows that decode ride along with prompts at hardly any cost, as long as there are prompts
/// (Agrawal et al. 2023, "SARATHI", section 4): chunks are best so small that a prompt lasts as
/// long as the answers beside it, and so large that they keep the arithmetic busy. Where that lies
/// follows from the ratio of prompts to answers and from what steps cost.
class RequestMix {
public:
  /// A request ended. One that wrote nothing says nothing.
  void ended(const RequestWork& work);
  /// Of an average request; none as long as none has ended.
  std::optional<RequestWork> average() const;

private:
  speculation::FadingMean prompt_rows_;
  speculation::FadingMean rounds_;
};

/// Sequences that share a step.
struct StepShares {
  int sequences = 0;          ///< That run, reading their prompts or decoding.
  double rows_a_sequence = 1; ///< Of one that decodes.
  double context = 0;         ///< As StepCost has it, over all of them.
};

/// Seconds of the target's for a request, where so many rows of prompts are in a step whenever
/// there are prompts, and others take the place of who has ended at once.
double seconds_of_request(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                          int prompt_rows);

/// The rows of prompts, a multiple of `limits::row_tile` and `most` at most, with which requests
/// take the target least time; of those that are nearly as good the fewest, which lengthen steps
/// least. `most` as long as nothing is known of steps or of requests.
int best_prompt_rows(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                     int most);

} // namespace paceline::scheduling
