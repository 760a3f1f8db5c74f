#include "apps/server/progress.hpp"

namespace paceline::apps::serve {

using Clock = std::chrono::steady_clock;

void Progress::note(Replica& replica, const Event& event, Clock::time_point arrived) {
  const auto now = Clock::now();
  const auto seconds_since = [now](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  ModelMetrics& metrics = replica.metrics();
  if (const auto* delta = std::get_if<Delta>(&event); delta && !delta->tokens.empty()) {
    if (last_ == Clock::time_point()) {
      metrics.first_token(seconds_since(arrived));
      if (delta->tokens.size() > 1) // Tokens of one round come at the same time.
        metrics.more_tokens(0, delta->tokens.size() - 1);
    } else {
      metrics.more_tokens(seconds_since(last_), delta->tokens.size());
    }
    last_ = now;
  } else if (const auto* end = std::get_if<Finished>(&event)) {
    metrics.finished(*end, seconds_since(arrived));
    replica.note_health(!end->error || end->error->code != ErrorCode::unavailable);
  }
}

} // namespace paceline::apps::serve
