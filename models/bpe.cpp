#include "models/bpe.hpp"

#include <algorithm>
#include <functional>

namespace paceline::models {
namespace {

/// Up to here looking through all pairs for the lowest rank is faster than keeping a heap.
constexpr std::size_t short_word = 32;

std::uint64_t candidate(std::uint32_t rank, std::int32_t at) {
  return std::uint64_t(rank) << 32 | std::uint32_t(at);
}

} // namespace

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (!words.empty()) {
    if (const auto whole = words.find(std::string(word)); whole != words.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  if (!lay_out(word, scratch))
    return;
  if (scratch.nodes.size() <= short_word)
    merge_short(scratch);
  else
    merge_long(scratch);
  for (std::int32_t at = 0; at >= 0; at = scratch.nodes[std::size_t(at)].next)
    out.push_back(scratch.nodes[std::size_t(at)].token);
}

/// One node per byte that has a token; false when there is none.
bool Bpe::lay_out(std::string_view word, Scratch& scratch) const {
  auto& nodes = scratch.nodes;
  nodes.clear();
  for (const char c : word) {
    const TokenId token = byte_tokens[static_cast<unsigned char>(c)];
    const auto at = std::int32_t(nodes.size());
    if (token >= 0)
      nodes.push_back({token, no_merge, at - 1, at + 1, 0});
  }
  if (nodes.empty())
    return false;
  nodes.back().next = -1;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    find_merge(scratch, std::int32_t(i));
  return true;
}

void Bpe::find_merge(Scratch& scratch, std::int32_t at) const {
  Scratch::Node& node = scratch.nodes[std::size_t(at)];
  node.rank = no_merge;
  if (node.next < 0)
    return;
  const auto merge = merges.find(pair(node.token, scratch.nodes[std::size_t(node.next)].token));
  if (merge == merges.end())
    return;
  node.rank = merge->second.rank;
  node.merged = merge->second.token;
}

/// Joins a node with its next one, and looks at the two pairs this makes.
void Bpe::merge_at(Scratch& scratch, std::int32_t at) const {
  auto& nodes = scratch.nodes;
  Scratch::Node& node = nodes[std::size_t(at)];
  Scratch::Node& gone = nodes[std::size_t(node.next)];
  node.token = node.merged;
  node.next = gone.next;
  gone.rank = no_merge;
  if (node.next >= 0)
    nodes[std::size_t(node.next)].previous = at;
  find_merge(scratch, at);
  if (node.previous >= 0)
    find_merge(scratch, node.previous);
}

void Bpe::merge_short(Scratch& scratch) const {
  const auto& nodes = scratch.nodes;
  for (;;) {
    std::int32_t best = 0;
    for (std::int32_t at = 0; at >= 0; at = nodes[std::size_t(at)].next)
      if (nodes[std::size_t(at)].rank < nodes[std::size_t(best)].rank)
        best = at;
    if (nodes[std::size_t(best)].rank == no_merge)
      return;
    merge_at(scratch, best);
  }
}

/// A heap of (rank, place); an entry whose node has another rank by now is stale.
void Bpe::merge_long(Scratch& scratch) const {
  const auto& nodes = scratch.nodes;
  auto& heap = scratch.heap;
  heap.clear();
  const auto add = [&](std::int32_t at) {
    if (at < 0 || nodes[std::size_t(at)].rank == no_merge)
      return false;
    heap.push_back(candidate(nodes[std::size_t(at)].rank, at));
    return true;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    add(std::int32_t(i));
  std::make_heap(heap.begin(), heap.end(), std::greater{});
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater{});
    const std::uint64_t best = heap.back();
    heap.pop_back();
    const auto at = std::int32_t(best);
    if (nodes[std::size_t(at)].rank != std::uint32_t(best >> 32))
      continue;
    merge_at(scratch, at);
    for (const std::int32_t changed : {at, nodes[std::size_t(at)].previous})
      if (add(changed))
        std::push_heap(heap.begin(), heap.end(), std::greater{});
  }
}

} // namespace paceline::models
