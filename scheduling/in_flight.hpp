// The batches that were sent to the target and are not judged yet.
#pragma once

#include "scheduling/batch.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

namespace paceline::scheduling {

struct InFlightBatch {
  Batch batch;
  base::TimePoint sent;
  std::optional<base::TimePoint> overdue; ///< When the target's lane counts as stalled.
  int rows = 0;                           ///< Of committed tokens.
  bool prefill = false;
  std::uint64_t draft = 0; ///< The draft that was to go on after its verdicts.
  SpeculationMode mode = SpeculationMode::off;
  bool model = true; ///< False: a look-up beside the model was all that was to draft.
  std::optional<Verdicts> verdicts; ///< They have come, and wait for those of the batch before.

  /// Tokens in the caches that its rows see.
  double context() const {
    double sum = 0;
    for (const BatchEntry& entry : batch.entries)
      sum += entry.length;
    return sum;
  }
};

/// In the order in which the lane takes them: the first one runs, those behind it were
/// pre-enqueued. Verdicts may overtake each other on their way; they are taken in this order.
class InFlightBatches {
public:
  bool empty() const { return batches_.empty(); }
  InFlightBatch& front() { return batches_.front(); }
  const InFlightBatch& front() const { return batches_.front(); }
  InFlightBatch& back() { return batches_.back(); }
  InFlightBatch& push(InFlightBatch batch) { return batches_.emplace_back(std::move(batch)); }
  InFlightBatch pop() {
    InFlightBatch first = std::move(batches_.front());
    batches_.pop_front();
    return first;
  }
  void clear() { batches_.clear(); }

  bool is_front(std::uint64_t batch) const { return !empty() && front().batch.id == batch; }
  /// Verdicts that are early stay with their batch; those of no batch in flight are dropped.
  void keep(const Verdicts& verdicts) {
    const auto at = std::ranges::find(batches_, verdicts.batch,
                                      [](const InFlightBatch& flight) { return flight.batch.id; });
    if (at != batches_.end())
      at->verdicts = verdicts;
  }

private:
  std::deque<InFlightBatch> batches_;
};

} // namespace paceline::scheduling
