// The batches that were sent to the target and are not judged yet.
#pragma once

#include "scheduling/batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace paceline::scheduling {

struct InFlightBatch {
  Batch batch;
  base::TimePoint sent;
  std::optional<base::TimePoint> overdue; ///< Time from which the target's lane counts as stalled.
  int rows = 0;                           ///< Rows of committed tokens.
  bool prefill = false;
  std::uint64_t draft = 0; ///< The draft that was to go on after its verdicts.
  SpeculationMode mode = SpeculationMode::off;
  bool model = true;                ///< False when only a look-up beside the model was to draft.
  base::Duration drafted{};         ///< `drafting()` when the lane's turn came to it.
  std::optional<Verdicts> verdicts; ///< Early verdicts, which wait for those of the batch before.

  /// Returns the tokens in the caches that its rows see.
  double context() const {
    double sum = 0;
    for (const BatchEntry& entry : batch.entries)
      sum += entry.length;
    return sum;
  }
  /// Returns what the draft has worked on the chains that it judges.
  base::Duration drafting() const {
    base::Duration sum{};
    for (const BatchEntry& entry : batch.entries)
      if (entry.round.chain)
        sum += entry.round.chain->busy();
    return sum;
  }
};

/// Batches in the order in which the target's lanes take them: those of other sequences in each
/// stage, and those that were pre-enqueued. Verdicts may overtake each other on their way; they are
/// taken in this order.
class InFlightBatches {
public:
  bool empty() const { return batches_.empty(); }
  std::size_t size() const { return batches_.size(); }
  InFlightBatch& front() { return batches_.front(); }
  const InFlightBatch& front() const { return batches_.front(); }
  const InFlightBatch& operator[](std::size_t i) const { return batches_[i]; }
  InFlightBatch& push(InFlightBatch batch) { return batches_.emplace_back(std::move(batch)); }
  InFlightBatch pop() {
    InFlightBatch first = std::move(batches_.front());
    batches_.pop_front();
    return first;
  }
  void clear() { batches_.clear(); }

  bool is_front(std::uint64_t batch) const { return !empty() && front().batch.id == batch; }
  /// Keeps verdicts that are early with their batch; verdicts of no batch in flight are dropped.
  void keep(const Verdicts& verdicts) {
    if (InFlightBatch* const flight = find(verdicts.batch))
      flight->verdicts = verdicts;
  }

  InFlightBatch* find(std::uint64_t batch) {
    const auto at = std::ranges::find(batches_, batch,
                                      [](const InFlightBatch& flight) { return flight.batch.id; });
    return at == batches_.end() ? nullptr : &*at;
  }
  /// Returns the batch that was pre-enqueued behind this one; null: none was.
  InFlightBatch* behind(std::uint64_t batch) {
    const auto at = std::ranges::find(
        batches_, batch, [](const InFlightBatch& flight) { return flight.batch.after; });
    return at == batches_.end() ? nullptr : &*at;
  }
  /// Counts the batches that were not pre-enqueued behind another one in flight.
  std::size_t leading() const {
    return std::size_t(std::ranges::count_if(batches_, [this](const InFlightBatch& flight) {
      return std::ranges::none_of(batches_, [&flight](const InFlightBatch& other) {
        return other.batch.id == flight.batch.after;
      });
    }));
  }
  /// Keeps, of the batches pre-enqueued behind this one, those that run, one behind the other.
  void leave_behind(std::uint64_t batch, std::span<const Continuation> continuations) {
    std::uint64_t last = batch;
    std::uint64_t left = batch;
    std::erase_if(batches_, [&](InFlightBatch& flight) {
      if (flight.batch.after != last)
        return false;
      last = flight.batch.id;
      const bool stays =
          std::ranges::find(continuations, last, &Continuation::batch) != continuations.end();
      if (stays)
        flight.batch.after = std::exchange(left, last);
      return !stays;
    });
  }

private:
  std::deque<InFlightBatch> batches_;
};

/// Batches that nobody waits for any more, since a stage of the target was lost, or whoever judges
/// them. The other lanes run what they have of them, and hold their pages as long.
class GivenUpBatches {
public:
  /// overdue: when a lane that still has one of them counts as standing still.
  void add(const InFlightBatch& flight, base::TimePoint overdue) {
    for (const BatchEntry& entry : flight.batch.entries)
      tables_.push_back(entry.feed.pages);
    overdue_ = std::max(overdue_.value_or(overdue), overdue);
  }
  void clear() {
    tables_.clear();
    overdue_.reset();
  }
  /// Returns when lanes should have let go of all of them; none: they have, or there are none.
  std::optional<base::TimePoint> overdue() {
    std::erase_if(tables_, [](const auto& table) { return table.expired(); });
    if (tables_.empty())
      overdue_.reset();
    return overdue_;
  }

private:
  std::vector<std::weak_ptr<const gpu::PageTable>> tables_;
  std::optional<base::TimePoint> overdue_;
};

} // namespace paceline::scheduling
