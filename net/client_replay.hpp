// What a request has delivered, so that the same answer, when it begins again, can go on from
// there.
#pragma once

#include "paceline/event.hpp"

#include <string>
#include <vector>

namespace paceline::net {

/// Remembers what was delivered of one request, whose answer repeats itself.
class Replay {
public:
  /// Says that the answer begins again.
  void rewind();
  /// Removes from an event what was delivered before, and remembers the rest. Returns false if the
  /// answer is not the one that had begun.
  bool pass(Event& event);
  /// Returns whether nothing of the event is left to be delivered.
  static bool empty(const Event& event);

private:
  bool pass(Delta& delta);

  std::vector<TokenId> tokens_;
  std::string text_;
  bool scores_ = false;         ///< The prompt's log-probabilities were delivered.
  std::size_t again_ = 0;       ///< Tokens that came again.
  std::size_t again_bytes_ = 0; ///< Bytes of text that came again.
};

} // namespace paceline::net
