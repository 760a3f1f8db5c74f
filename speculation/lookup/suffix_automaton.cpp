#include "speculation/lookup/suffix_automaton.hpp"

#include <algorithm>

namespace paceline::speculation {
namespace {

constexpr std::size_t slots_at_first = 64; // a power of two

std::uint64_t hash(std::uint32_t state, TokenId token) {
  std::uint64_t x = (std::uint64_t(state) << 32 | std::uint32_t(token)) * 0x9E3779B97F4A7C15u;
  return x ^ x >> 32;
}

} // namespace

SuffixAutomaton::SuffixAutomaton() : slots_(slots_at_first, none) {
  add_state(0, none);
}

void SuffixAutomaton::append(TokenId token) {
  ++time_;
  if (Edge* known = find(last_, token)) { // another text began like this one
    ++known->count;
    known->seen = time_;
    last_ = end_of(*known);
    return;
  }
  const std::uint32_t end = add_state(states_[last_].length + 1, root);
  std::uint32_t at = last_;
  Edge* known = nullptr;
  for (; at != none && !(known = find(at, token)); at = states_[at].link)
    add_edge(at, token, end, 1);
  if (known) {
    ++known->count;
    known->seen = time_;
    states_[end].link = end_of(*known);
  }
  last_ = end;
}

/// Returns the state of the text that leads to the edge and over it. Where a longer text ends in
/// the same state, that state is split.
std::uint32_t SuffixAutomaton::end_of(const Edge& edge) {
  const auto [state, token, target, next, count, seen] = edge; // a copy, since the vector may move
  if (states_[target].length == states_[state].length + 1)
    return target;
  const std::uint32_t split = add_state(states_[state].length + 1, states_[target].link);
  for (std::uint32_t e = states_[target].edges; e != none; e = edges_[e].next) {
    const Edge copied = edges_[e];
    add_edge(split, copied.token, copied.target, copied.count);
    edges_.back().seen = copied.seen;
  }
  states_[target].link = split;
  for (std::uint32_t at = state; at != none; at = states_[at].link) {
    Edge* same = find(at, token);
    if (!same || same->target != target)
      break;
    same->target = split;
  }
  return split;
}

SuffixAutomaton::Place SuffixAutomaton::repeated() const {
  const std::uint32_t link = states_[last_].link;
  return link == none ? Place{} : Place{link, states_[link].length};
}

SuffixAutomaton::Place SuffixAutomaton::settled(Place place) const {
  while (place.state != root && states_[states_[place.state].link].length >= place.length)
    place.state = states_[place.state].link;
  return place;
}

SuffixAutomaton::Place SuffixAutomaton::follow(Place place, TokenId token) const {
  place = settled(place);
  for (;;) {
    if (const Edge* edge = find(place.state, token))
      return {edge->target, place.length + 1};
    if (place.state == root)
      return {};
    place.state = states_[place.state].link;
    place.length = states_[place.state].length;
  }
}

int SuffixAutomaton::followers(Place place, std::size_t most,
                               std::vector<TokenWeight>& tokens) const {
  tokens.clear();
  place = settled(place);
  while (place.state != root && states_[place.state].edges == none) {
    place.state = states_[place.state].link;
    place.length = states_[place.state].length;
  }
  if (place.state == root)
    return 0;
  std::uint32_t best = states_[place.state].edges;
  const auto before = [](const Edge& a, const Edge& b) {
    return a.count != b.count ? a.count > b.count : a.seen > b.seen;
  };
  for (std::uint32_t e = best; e != none && tokens.size() < most; e = edges_[e].next) {
    tokens.push_back({edges_[e].token, float(edges_[e].count)});
    if (before(edges_[e], edges_[best])) {
      best = e;
      std::swap(tokens.front(), tokens.back());
    }
  }
  return place.length;
}

std::size_t SuffixAutomaton::bytes() const {
  return states_.capacity() * sizeof(State) + edges_.capacity() * sizeof(Edge) +
         slots_.capacity() * sizeof(slots_[0]);
}

std::uint32_t SuffixAutomaton::add_state(int length, std::uint32_t link) {
  states_.push_back({length, link, none});
  return std::uint32_t(states_.size() - 1);
}

void SuffixAutomaton::add_edge(std::uint32_t state, TokenId token, std::uint32_t target,
                               std::uint32_t count) {
  if (2 * (edges_.size() + 1) > slots_.size())
    grow_slots();
  const auto edge = std::uint32_t(edges_.size());
  edges_.push_back({state, token, target, states_[state].edges, count, time_});
  states_[state].edges = edge;
  slots_[slot_of(state, token)] = edge;
}

/// Returns the slot of the edge, or the empty slot where it would go.
std::size_t SuffixAutomaton::slot_of(std::uint32_t state, TokenId token) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash(state, token) & mask;
  while (slots_[slot] != none &&
         (edges_[slots_[slot]].state != state || edges_[slots_[slot]].token != token))
    slot = (slot + 1) & mask;
  return slot;
}

const SuffixAutomaton::Edge* SuffixAutomaton::find(std::uint32_t state, TokenId token) const {
  const std::uint32_t edge = slots_[slot_of(state, token)];
  return edge == none ? nullptr : &edges_[edge];
}

SuffixAutomaton::Edge* SuffixAutomaton::find(std::uint32_t state, TokenId token) {
  const std::uint32_t edge = slots_[slot_of(state, token)];
  return edge == none ? nullptr : &edges_[edge];
}

void SuffixAutomaton::grow_slots() {
  slots_.assign(2 * slots_.size(), none);
  for (std::uint32_t edge = 0; edge < edges_.size(); ++edge)
    slots_[slot_of(edges_[edge].state, edges_[edge].token)] = edge;
}

} // namespace paceline::speculation
