// The text of a sequence in one piece, as a Drafter reads it.
#pragma once

#include "speculation/frontier.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace paceline::speculation {

/// The tokens of a sequence in one piece. Log, frontier and chain have them in three, so this is a
/// copy: a Drafter gets one span, and appends to it what it proposes.
class DraftedText {
public:
  /// Reads what is committed up to the frontier, and then what its chain has drawn.
  void read(const Frontier& at);

  std::vector<TokenId> tokens; ///< Committed tokens, then those that the chain has drawn.
  std::size_t committed() const { return committed_; }

private:
  std::size_t committed_ = 0;
  std::optional<Epoch> epoch_; ///< Epoch of the frontier that was read last.
};

} // namespace paceline::speculation
