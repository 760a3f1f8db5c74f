// What rounds cost, for the policy and for the figures.
#pragma once

#include "base/telemetry.hpp"
#include "scheduling/in_flight.hpp"
#include "speculation/estimates.hpp"

#include <optional>

namespace paceline::scheduling {

class RoundMeter {
public:
  /// Nothing is in flight: the next round begins with its batch.
  void idle() { last_end_.reset(); }
  /// The batch's verdicts have been taken, but for what they cost. Reads what the draft spent from
  /// the chains that they judged.
  speculation::RoundObservation end(const InFlightBatch& flight, const Verdicts& verdicts,
                                    base::TimePoint now, base::Telemetry& telemetry);

private:
  std::optional<base::TimePoint> last_end_; ///< Of the batch just before, when nothing idled.
};

} // namespace paceline::scheduling
