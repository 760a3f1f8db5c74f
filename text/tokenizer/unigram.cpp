#include "text/tokenizer/unigram.hpp"

#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <limits>

namespace paceline::text {

Result<Unigram> Unigram::read(Part& part, const Vocabulary& vocabulary) {
  const boost::json::value* list = part.fields().find("vocab");
  const auto unknown = id_of(part.fields().find("unk_id"));
  if (!list || !list->is_array())
    return part.wrong("has no scores in its vocab");
  if (!unknown || std::size_t(*unknown) >= list->get_array().size())
    return part.wrong("has no unk_id that is in its vocab");
  constexpr double unknown_penalty = 10;
  Unigram out;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string, TokenId>> entries;
  for (const boost::json::value& entry : list->get_array()) {
    const auto id = TokenId(out.scores_.size());
    const boost::json::value& stored = entry.get_array()[1];
    const double score =
        out.scores_.emplace_back(stored.is_null() ? 0 : stored.to_number<double>());
    if (stored.is_null())
      continue;
    least = std::min(least, score);
    entries.emplace_back(vocabulary.tokens()[std::size_t(id)].piece, id);
  }
  out.trie_ = Trie(std::move(entries));
  out.unknown_ = *unknown;
  out.unknown_score_ = least - unknown_penalty;
  out.fallback_tokens_.fill(-1);
  if (part.fields().boolean("byte_fallback", false))
    out.fallback_tokens_ = vocabulary.byte_fallback_tokens();
  return out;
}

void Unigram::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  find_paths(word, scratch);
  auto& pieces = scratch.pieces; // from the last piece to the first; unknown ones in a row are one
  pieces.clear();
  bool unknown = false;
  for (std::size_t end = word.size(); end > 0;) {
    const Scratch::Node& node = scratch.nodes[end];
    if (unknown && node.last == unknown_)
      pieces.back().first = node.begin;
    else
      pieces.emplace_back(node.begin, end);
    unknown = node.last == unknown_;
    end = node.begin;
  }
  for (std::size_t i = pieces.size(); i-- > 0;) {
    const auto [begin, end] = pieces[i];
    const Scratch::Node& node = scratch.nodes[end];
    if (node.last == unknown_)
      append_unknown(word.substr(begin, end - begin), out);
    else
      out.push_back(node.last);
  }
}

/// Finds the best way to each place; a place leads at least to the end of its character.
void Unigram::find_paths(std::string_view word, Scratch& scratch) const {
  auto& nodes = scratch.nodes;
  nodes.assign(word.size() + 1, {0, 0, -1});
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view rest = word.substr(at);
    const std::size_t character = first_character(rest).size;
    bool has_character = false;
    const auto offer = [&](std::size_t length, TokenId id, double score) {
      Scratch::Node& node = nodes[at + length];
      const double total = score + nodes[at].score;
      if (node.last < 0 || total > node.score)
        node = {total, at, id};
      has_character |= length == character;
    };
    trie_.for_each_prefix(
        rest, [&](std::size_t length, TokenId id) { offer(length, id, scores_[std::size_t(id)]); });
    if (!has_character)
      offer(character, unknown_, unknown_score_);
    at += character;
  }
}

/// Appends the tokens of a text that is unknown, or that spells the unknown token's own piece.
void Unigram::append_unknown(std::string_view text, std::vector<TokenId>& out) const {
  TokenId whole = -1;
  trie_.for_each_prefix(text, [&](std::size_t length, TokenId id) {
    if (length == text.size())
      whole = id;
  });
  const auto token = [this](char c) { return fallback_tokens_[static_cast<unsigned char>(c)]; };
  if (whole >= 0)
    out.push_back(whole);
  else if (std::any_of(text.begin(), text.end(), [&](char c) { return token(c) < 0; }))
    out.push_back(unknown_);
  else
    for (const char c : text)
      out.push_back(token(c));
}

} // namespace paceline::text
