// Measures what rounds cost, for the policy and for the figures.
#pragma once

#include "base/telemetry.hpp"
#include "scheduling/in_flight.hpp"
#include "speculation/estimates.hpp"

#include <optional>

namespace paceline::scheduling {

class RoundMeter {
public:
  /// Notes that nothing is in flight: the next round begins with its batch.
  void idle() { last_end_.reset(); }
  /// Returns what the round of this batch cost, once its verdicts have been taken. Reads what the
  /// draft spent from the chains that were judged.
  speculation::RoundObservation end(const InFlightBatch& flight, const Verdicts& verdicts,
                                    base::TimePoint now, base::Telemetry& telemetry);

private:
  std::optional<base::TimePoint> last_end_; ///< End of the batch just before; none after idling.
};

} // namespace paceline::scheduling
