// What a request has delivered, so that the same answer from its beginning can go on from there.
#pragma once

#include "paceline/event.hpp"

#include <string>
#include <vector>

namespace paceline::net {

/// Of one request whose answer repeats itself.
class Replay {
public:
  /// The answer begins again.
  void rewind();
  /// Takes away from an event what was delivered before, and remembers the rest. False: the answer
  /// is not the one that had begun.
  bool pass(Event& event);
  /// Whether anything is left of it to be delivered.
  static bool empty(const Event& event);

private:
  bool pass(Delta& delta);

  std::vector<TokenId> tokens_;
  std::string text_;
  bool scores_ = false;         ///< The prompt's were delivered.
  std::size_t again_ = 0;       ///< Tokens that came again,
  std::size_t again_bytes_ = 0; ///< and bytes of text.
};

} // namespace paceline::net
