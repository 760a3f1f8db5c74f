#include "text/tokenizer/bpe.hpp"

#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <functional>

namespace paceline::text {
namespace json = boost::json;
namespace {

/// Up to this length a search through all pairs for the lowest rank is faster than a heap.
constexpr std::size_t short_word = 32;

std::uint64_t candidate(std::uint32_t rank, std::int32_t at) {
  return std::uint64_t(rank) << 32 | std::uint32_t(at);
}

/// Reads a pair: "a b" or ["a", "b"].
std::optional<std::pair<std::string_view, std::string_view>> pair_of(const json::value& value) {
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    const auto space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos)
      return {};
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  const json::array* both = value.if_array();
  if (!both || both->size() != 2 || !(*both)[0].is_string() || !(*both)[1].is_string())
    return {};
  return std::pair<std::string_view, std::string_view>((*both)[0].get_string(),
                                                       (*both)[1].get_string());
}

} // namespace

Bpe::Bpe() {
  byte_tokens.fill(-1);
  fallback_tokens.fill(-1);
}

Result<Bpe> Bpe::read(Part& part, const Vocabulary& vocabulary, bool byte_level) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!part.fields().string(key, {}).empty())
      return part.refuse(key);
  if (part.fields().number("dropout", 0, 1, 0) != 0)
    return part.refuse("dropout");
  Bpe out;
  out.byte_level = byte_level;
  for (const auto step : {&Bpe::read_alphabet, &Bpe::read_unknown, &Bpe::read_merges})
    if (auto done = (out.*step)(part, vocabulary); !done)
      return tl::unexpected(done.error());
  return out;
}

Result<void> Bpe::read_alphabet(Part& part, const Vocabulary& vocabulary) {
  const bool ignore_merges = part.fields().boolean("ignore_merges", false);
  for (std::size_t at = 0; at < vocabulary.tokens().size(); ++at) {
    const Vocabulary::Token& token = vocabulary.tokens()[at];
    const auto spelled = byte_level ? spelled_bytes(token.piece) : std::optional(token.piece);
    if (!token.known || !spelled || spelled->empty())
      continue;
    const auto id = TokenId(at);
    const Character c = byte_level ? Character{static_cast<unsigned char>((*spelled)[0]), 1}
                                   : first_character(*spelled);
    if (c.size == spelled->size() && (byte_level || c.point < 128))
      byte_tokens[c.point] = id;
    else if (c.size == spelled->size())
      character_tokens[c.point] = id;
    if (ignore_merges)
      words.emplace(*spelled, id);
  }
  return {};
}

/// Reads what characters become that the vocabulary lacks.
Result<void> Bpe::read_unknown(Part& part, const Vocabulary& vocabulary) {
  const bool complete =
      byte_level && std::find(byte_tokens.begin(), byte_tokens.end(), -1) == byte_tokens.end();
  if (complete)
    return {};
  if (part.fields().boolean("byte_fallback", false)) {
    if (byte_level)
      return part.refuse("byte_fallback in a byte-level vocabulary");
    fallback_tokens = vocabulary.byte_fallback_tokens();
  }
  fuse_unknown = part.fields().boolean("fuse_unk", false);
  const std::string name = part.fields().string("unk_token", {});
  const auto id = vocabulary.find(name);
  if (!name.empty() && !id)
    return part.wrong(fmt::format("has an unk_token {} that is not in its vocab", shown(name)));
  unknown = id.value_or(-1);
  return {};
}

Result<void> Bpe::read_merges(Part& part, const Vocabulary& vocabulary) {
  const json::value* list = part.fields().find("merges");
  const json::value* tokens = part.fields().find("vocab");
  const bool scored = !byte_level && !list && tokens && tokens->is_array();
  if (!scored && (!list || !list->is_array()))
    return part.wrong("has no merges");
  if (!byte_level)
    joints.emplace();
  if (scored) {
    read_scores(tokens->get_array(), vocabulary);
    return {};
  }
  std::uint32_t rank = 0;
  std::string both;
  for (const json::value& value : list->get_array()) {
    const auto halves = pair_of(value);
    if (!halves)
      return part.wrong(fmt::format("has a merge {} that is not a pair of tokens", rank));
    both = halves->first;
    both += halves->second;
    const auto left = vocabulary.find(halves->first);
    const auto right = vocabulary.find(halves->second);
    const auto whole = vocabulary.find(both);
    if (!left || !right || !whole)
      return part.wrong(
          fmt::format("has a merge {} ({} and {}) of tokens that are not in its vocab", rank,
                      shown(halves->first), shown(halves->second)));
    add_merge(halves->first, halves->second, *left, *right, {rank, *whole});
    ++rank;
  }
  return {};
}

void Bpe::add_merge(std::string_view left, std::string_view right, TokenId left_id,
                    TokenId right_id, Merge merge) {
  merges[pair(left_id, right_id)] = merge;
  read_joint(left, right);
  const auto is_symbol = [&](TokenId id) {
    return id == unknown || std::count(fallback_tokens.begin(), fallback_tokens.end(), id) > 0;
  };
  if (joints && (is_symbol(left_id) || is_symbol(right_id)))
    joints.reset(); // its spelling is not that of the text it stands for
}

/// Makes merges of scores. Tokens of one score have one rank: of their pairs the leftmost merges
/// first.
void Bpe::read_scores(const json::array& scores, const Vocabulary& vocabulary) {
  std::vector<std::pair<double, TokenId>> order;
  for (std::size_t id = 0; id < scores.size(); ++id)
    if (const json::value& score = scores[id].get_array()[1]; score.is_number())
      order.emplace_back(-score.to_number<double>(), TokenId(id));
  std::ranges::sort(order);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    rank += i > 0 && order[i].first != order[i - 1].first;
    const std::string_view whole = vocabulary.tokens()[std::size_t(order[i].second)].piece;
    for (std::size_t at = 0; at < whole.size(); at += first_character(whole.substr(at)).size) {
      if (at == 0)
        continue; // a merge has two parts
      const auto left = vocabulary.find(whole.substr(0, at));
      const auto right = vocabulary.find(whole.substr(at));
      if (left && right)
        add_merge(whole.substr(0, at), whole.substr(at), *left, *right, {rank, order[i].second});
    }
  }
}

void Bpe::read_joint(std::string_view left, std::string_view right) {
  if (!joints || left.empty() || right.empty())
    return;
  std::size_t size = 0;
  left.remove_prefix(left.size() - last_character(left).size);
  joints->insert(pair(token_of(left, size), token_of(right, size)));
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (!words.empty()) {
    if (const auto whole = words.find(word); whole != words.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  lay_out(word, scratch);
  const auto& nodes = scratch.nodes;
  for (std::size_t begin = 0; begin < nodes.size();) {
    const std::size_t end = link_run(scratch, begin);
    if (end - begin <= short_word)
      merge_short(scratch, begin);
    else
      merge_long(scratch, begin, end);
    for (auto at = std::int32_t(begin); at >= 0; at = nodes[std::size_t(at)].next)
      out.push_back(nodes[std::size_t(at)].token);
    begin = end;
  }
}

void Bpe::lay_out(std::string_view word, Scratch& scratch) const {
  auto& nodes = scratch.nodes;
  nodes.clear();
  bool unknown_waits = false; // not laid out yet: what follows may belong to it
  const auto put = [&](TokenId token) { nodes.push_back({token, no_merge, 0, 0, 0}); };
  while (!word.empty()) {
    std::size_t size = 1;
    const TokenId token = token_of(word, size);
    if (token >= 0) {
      if (unknown_waits)
        put(unknown);
      unknown_waits = false;
      put(token);
    } else if (!fall_back(word.substr(0, size), scratch) && unknown >= 0) {
      if (unknown_waits && !fuse_unknown)
        put(unknown);
      unknown_waits = true;
    }
    word.remove_prefix(size);
  }
  if (unknown_waits)
    put(unknown);
}

/// Joins the nodes from `begin` on that merges may reach; returns the end of this run.
std::size_t Bpe::link_run(Scratch& scratch, std::size_t begin) const {
  auto& nodes = scratch.nodes;
  nodes[begin].previous = -1;
  for (std::size_t at = begin;; ++at) {
    nodes[at].next = at + 1 < nodes.size() ? std::int32_t(at) + 1 : -1;
    find_merge(scratch, std::int32_t(at));
    if (nodes[at].next < 0)
      return at + 1;
    if (nodes[at].rank == no_merge && joints &&
        !joints->contains(pair(nodes[at].token, nodes[at + 1].token))) {
      nodes[at].next = -1;
      return at + 1;
    }
    nodes[at + 1].previous = std::int32_t(at);
  }
}

/// Returns the token of the symbol that begins `word`, -1 if there is none; size: the symbol's.
TokenId Bpe::token_of(std::string_view word, std::size_t& size) const {
  const auto first = static_cast<unsigned char>(word[0]);
  size = 1;
  if (byte_level || first < 128)
    return byte_tokens[first];
  const Character c = first_character(word);
  size = c.size;
  const auto found = character_tokens.find(c.point);
  return found == character_tokens.end() ? -1 : found->second;
}

/// Lays out byte tokens in place of a character, if all of them exist.
bool Bpe::fall_back(std::string_view character, Scratch& scratch) const {
  const auto token = [this](char c) { return fallback_tokens[static_cast<unsigned char>(c)]; };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return token(c) < 0; }))
    return false;
  for (const char c : character)
    scratch.nodes.push_back({token(c), no_merge, 0, 0, 0});
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

/// Joins a node with its next one, and looks at the two new pairs.
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

void Bpe::merge_short(Scratch& scratch, std::size_t begin) const {
  const auto& nodes = scratch.nodes;
  for (;;) {
    auto best = std::int32_t(begin);
    for (std::int32_t at = best; at >= 0; at = nodes[std::size_t(at)].next)
      if (nodes[std::size_t(at)].rank < nodes[std::size_t(best)].rank)
        best = at;
    if (nodes[std::size_t(best)].rank == no_merge)
      return;
    merge_at(scratch, best);
  }
}

/// Merges with a heap of (rank, place); an entry whose node has another rank by now is stale.
void Bpe::merge_long(Scratch& scratch, std::size_t begin, std::size_t end) const {
  const auto& nodes = scratch.nodes;
  auto& heap = scratch.heap;
  heap.clear();
  const auto add = [&](std::int32_t at) {
    if (at < 0 || nodes[std::size_t(at)].rank == no_merge)
      return false;
    heap.push_back(candidate(nodes[std::size_t(at)].rank, at));
    return true;
  };
  for (std::size_t i = begin; i < end; ++i)
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

} // namespace paceline::text
