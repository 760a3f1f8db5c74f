// Forks of a draft on a node: how many cross, and their encoding in few bytes.
#pragma once

#include "messages/node.hpp"
#include "speculation/frontier.hpp"

#include <optional>

namespace paceline::nodes {

/// True if the chain is a fork of another one, as its attempt says.
bool is_fork(const speculation::Chain& chain);

/// Returns how many forks of so many tokens go with a window (limits::node_fork_bytes_max).
/// row_bytes: size of a token's row of q; 0: none crosses.
int forks_that_cross(int window, double row_bytes);

/// Encodes the forking; none if no forks are to be written.
std::optional<messages::DraftForking> forking_for_node(const speculation::Forking& forking,
                                                       double row_bytes);
/// Decodes and checks the forking. Throws check_peer's exception if it is invalid.
speculation::Forking forking_of(const messages::DraftForking& said);

messages::DraftedGuesses guesses_for_engine(const sampling::Guesses& guesses);
/// Decodes and checks the guesses. Throws check_peer's exception if they are invalid.
sampling::Guesses guesses_of(const messages::DraftedGuesses& said, int vocabulary);

} // namespace paceline::nodes
