#include "nodes/draft_forking.hpp"

#include "nodes/limits.hpp"
#include "nodes/peer.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::nodes {

using messages::DraftedGuesses;
using messages::DraftForking;
using sampling::Guesses;
using speculation::Forking;

namespace {

constexpr double steps = 255; // Steps from chance 0 to chance 1.

/// Returns a margin that is in the class.
float margin_within(std::size_t margin_class) {
  const auto& edges = sampling::margin_edges;
  return margin_class == 0 ? edges[0] - 1 : edges[margin_class - 1];
}

} // namespace

bool is_fork(const speculation::Chain& chain) {
  return chain.attempt() >> speculation::limits::frontier_bits != 0;
}

int forks_that_cross(int window, double row_bytes) {
  constexpr double opened = 10; // Bytes of an OpenedFork.
  constexpr double besides = 6; // Bytes of a DraftedFork without tokens.
  const std::size_t most =
      row_bytes > 0 ? limits::node_fork_q_bytes_max : limits::node_fork_bytes_max;
  const double each = opened + besides + window * (double(sizeof(TokenId)) + row_bytes);
  return std::min(int(double(most) / each), limits::node_forks_max);
}

std::optional<DraftForking> forking_for_node(const Forking& forking, double row_bytes) {
  const int most = std::min(forking.most, forks_that_cross(forking.window, row_bytes));
  if (forking.rows <= 0 || forking.window <= 0 || most <= 0)
    return std::nullopt;
  DraftForking said;
  said.rows = std::uint8_t(std::min(forking.rows, most));
  said.window = std::uint8_t(forking.window);
  said.most = std::uint8_t(most);
  said.beyond = std::uint8_t(forking.beyond);
  auto to = said.odds.begin();
  const auto say = [&to](double chance) {
    *to++ = std::uint8_t(std::lround(std::clamp(chance, 0.0, 1.0) * steps));
  };
  std::ranges::for_each(forking.odds.by_margin, say);
  std::ranges::for_each(forking.odds.guess, say);
  return said;
}

Forking forking_of(const DraftForking& said) {
  check_peer(said.rows <= limits::node_forks_max && said.most <= limits::node_forks_max &&
                 said.window <= speculation::limits::chain_positions / 2 &&
                 said.beyond <= speculation::limits::chain_positions,
             "it wants more forks than there may be");
  Forking forking;
  forking.rows = said.rows;
  forking.window = said.window;
  forking.most = said.most;
  forking.beyond = said.beyond;
  auto from = said.odds.begin();
  for (double& chance : forking.odds.by_margin)
    chance = *from++ / steps;
  for (double& chance : forking.odds.guess)
    chance = *from++ / steps;
  return forking;
}

DraftedGuesses guesses_for_engine(const Guesses& guesses) {
  return {{guesses.tokens.begin(), guesses.tokens.begin() + guesses.count},
          std::uint8_t(sampling::margin_class(guesses.margin))};
}

Guesses guesses_of(const DraftedGuesses& said, int vocabulary) {
  Guesses guesses;
  check_peer(said.tokens.size() <= guesses.tokens.size() &&
                 said.margin_class < sampling::margin_classes,
             "the node guesses what cannot be");
  for (const TokenId token : said.tokens) {
    check_peer(token >= 0 && token < vocabulary, "the node guesses a token that is none");
    guesses.tokens[std::size_t(guesses.count++)] = token;
  }
  guesses.margin = margin_within(said.margin_class);
  return guesses;
}

} // namespace paceline::nodes
