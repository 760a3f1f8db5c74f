// Which batches an actor of the target's path has had.
#pragma once

#include <cstdint>

namespace paceline::scheduling {

/// Batches are numbered in the order in which they were sent. One that came already does not count
/// again. Of a target on one device neither does one that a later one has overtaken, for it goes on
/// from where that one began; those under way in several stages are of different sequences, or say
/// behind which one they were pre-enqueued, and are as good in any order.
class BatchOrder {
public:
  std::uint64_t last() const { return last_; }
  /// stages: whether the target has several.
  bool is_due(std::uint64_t batch, bool stages) const {
    if (batch > last_)
      return true;
    const std::uint64_t behind = last_ - batch;
    return stages && behind < remembered && !(came_ >> behind & 1);
  }
  /// One that is due has come.
  void note(std::uint64_t batch) {
    if (batch > last_) {
      const std::uint64_t ahead = batch - last_;
      came_ = ahead < remembered ? came_ << ahead : 0;
      last_ = batch;
    }
    came_ |= std::uint64_t(1) << (last_ - batch);
  }

private:
  static constexpr std::uint64_t remembered = 64; ///< More than are ever under way.

  std::uint64_t last_ = 0;
  std::uint64_t came_ = 0; ///< By how far they are behind the last.
};

} // namespace paceline::scheduling
