// Keeps which batches an actor of the target's path has had.
#pragma once

#include <cstdint>

namespace paceline::scheduling {

/// Batches are numbered in the order in which they were sent. A batch that came already does not
/// count again, nor does one of an earlier scheduler. Batches under way together are of different
/// sequences, or say behind which one they were pre-enqueued, so any order will do.
class BatchOrder {
public:
  bool is_due(std::uint64_t batch) const {
    if (batch > last_)
      return true;
    const std::uint64_t behind = last_ - batch;
    return behind < remembered && !(came_ >> behind & 1);
  }
  /// Notes that a batch that is due has come.
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
  std::uint64_t came_ = 0; ///< Bit n: the batch n before the last has come.
};

} // namespace paceline::scheduling
