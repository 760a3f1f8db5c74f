// What a draft's node may say that is not so.
#pragma once

#include "tests/nodes/lying_node.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace paceline::testing {

inline constexpr int demo_vocabulary = 4096;

/// A chain's news, and what they answer.
using LieOfChain =
    std::function<bool(messages::DraftedTokens& said, const messages::DraftFrom& asked)>;

enum class Behind { nothing, the_rest };

/// Once of each chain that the engine goes on with and about which there is something to say.
/// behind: nothing more is said of that chain, so that it is this one lie for which a node is cut
/// off; or all that the honest node says.
Lie of_chain(LieOfChain lie, Behind behind = Behind::nothing);
/// Returns a lie about the first tokens of it.
Lie of_window(std::function<void(messages::DraftedTokens&)> lie, Behind behind = Behind::nothing);

/// Committed tokens that the node then has.
int length_of(const messages::DraftFrom& asked);
/// speculation::Chain::attempt
std::uint32_t attempt_of(int frontier, int fork);

/// Each ends its connection.
std::vector<NamedLie> lies_of_drafts();
/// Where the rule is `rejection`: each ends its connection, too.
std::vector<NamedLie> lies_of_rows();
/// Nobody goes on with what they are about, or it may be so.
std::vector<NamedLie> lies_that_harm_nobody();

} // namespace paceline::testing
