#include "tests/simulation/admissions.hpp"

#include "messages/interfaces.hpp"
#include "speculation/policy.hpp"
#include "tests/simulation/message_kinds.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace paceline::testing {

std::optional<std::string> Admissions::sees(const actors::Arrival& arrival, base::TimePoint now) {
  if (const auto* admit = as<scheduling::Admit>(arrival)) {
    if (known_.insert(admit->spec->id).second)
      admitted_.emplace(admit->spec->id, Admitted{admit->spec, now});
  } else if (as<scheduling::Verdicts>(arrival)) {
    measured_ |= std::string_view(arrival.name) == "scheduler";
  } else if (const auto* wanted = as<scheduling::KvReserve>(arrival)) {
    if (const auto request = admitted_.extract(wanted->sequence))
      return takes_up(request.mapped(), now);
  }
  return std::nullopt;
}

/// What nothing ends sooner says all its tokens; any other says one at least.
std::optional<std::string> Admissions::takes_up(const Admitted& request,
                                                base::TimePoint now) const {
  const speculation::SequenceSpec& spec = *request.spec;
  if (!measured_ || !spec.deadline)
    return std::nullopt;
  const int tokens = spec.end_of_text.empty() ? spec.max_tokens : spec.warping.min_tokens;
  const double steps =
      std::max(0.0, (tokens - 1.0) / (speculation::PolicyOptions().window_limit + 1));
  const double needed = steps * base::seconds(step_);
  const double left = base::seconds(request.at + *spec.deadline - now);
  if (needed <= left)
    return std::nullopt;
  return fmt::format("request {} was taken up with {:.3f} s left, and takes {:.3f} s at least",
                     spec.id, left, needed);
}

} // namespace paceline::testing
