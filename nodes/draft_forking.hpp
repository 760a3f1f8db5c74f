// Forks of a draft on a node, as they cross: how many, and in few bytes.
#pragma once

#include "messages/node.hpp"
#include "speculation/frontier.hpp"

#include <optional>

namespace paceline::nodes {

/// True if the chain is a fork of another one, as its attempt says.
bool is_fork(const speculation::Chain& chain);

/// How many forks of so many tokens go with a window (limits::node_fork_bytes_max).
/// row_bytes: what a token's row of q takes; 0: none crosses.
int forks_that_cross(int window, double row_bytes);

/// None: no forks are to be written.
std::optional<messages::DraftForking> forking_for_node(const speculation::Forking& forking,
                                                       double row_bytes);
/// check_peer's exception, where it cannot be.
speculation::Forking forking_of(const messages::DraftForking& said);

messages::DraftedGuesses guesses_for_engine(const sampling::Guesses& guesses);
/// check_peer's exception, where it cannot be.
sampling::Guesses guesses_of(const messages::DraftedGuesses& said, int vocabulary);

} // namespace paceline::nodes
