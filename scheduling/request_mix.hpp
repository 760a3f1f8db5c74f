// Decides how many rows of prompts a step should have while requests wait for a place.
#pragma once

#include "scheduling/step_cost.hpp"

#include <optional>

namespace paceline::scheduling {

/// The work that a request is for the target.
struct RequestWork {
  double prompt_rows = 0; ///< Rows fed of its prompt, without what is cached.
  double rounds = 0;      ///< Steps that write its answer.
};

/// Learns from requests that ended how much of what requests ask for becomes work, and finds the
/// size of steps that serves most of them.
///
/// Rows that decode ride along with prompts at hardly any cost, as long as there are prompts
/// (Agrawal et al. 2023, "SARATHI", section 4): the best chunks are so small that a prompt lasts as
/// long as the answers beside it, and so large that they keep the arithmetic busy. The best size
/// follows from the ratio of prompts to answers and from what steps cost.
class RequestMix {
public:
  /// Takes in a request that ended. asked: its whole prompt, and the most that it might write. A
  /// request that wrote nothing is left out.
  void ended(const RequestWork& work, const RequestWork& asked);
  /// Returns the work to expect of a request that asks for so much: all of it, as long as none has
  /// ended.
  RequestWork expected(const RequestWork& asked) const;

private:
  struct Part {
    speculation::FadingMean became; ///< Work of a request.
    speculation::FadingMean asked;
    void add(double work, double of);
    double of(double amount) const;
  };
  Part prompt_rows_;
  Part rounds_;
};

/// The sequences that share a step.
struct StepShares {
  int sequences = 0;          ///< Sequences that run, reading their prompts or decoding.
  double rows_a_sequence = 1; ///< Rows of a sequence that decodes.
  double context = 0;         ///< Context as in StepCost, over all of them.
};

/// Returns the target's seconds for a request at the least (StepCost::predict_least), where a step
/// has so many rows, of prompts and of sequences that decode, whenever there are prompts, and
/// others take the place of an ended request at once. rows: more than all sequences but one decode.
double seconds_of_request(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                          int rows);

/// Returns the rows of a step with prompts, a multiple of `limits::row_tile` and `most` at most,
/// with which requests take the target least time. Among nearly equal ones it takes the fewest,
/// which lengthen steps least; a size that was never tried is, where it may be better than all that
/// were. It is `most` as long as nothing is known of steps or of requests.
int best_step_rows(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                   int most);

} // namespace paceline::scheduling
