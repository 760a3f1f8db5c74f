#include "text/tokenizer/vocabulary.hpp"

#include "text/json.hpp"
#include "text/limits.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/unicode.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fmt/format.h>

namespace paceline::text {
namespace json = boost::json;
namespace {

/// Returns GPT-2's alphabet: printable Latin-1 bytes are themselves, the others follow from U+0100
/// on. The code points are below 0x144. -1: no byte.
const std::array<int, 0x144>& byte_of_code_point() {
  static const std::array<int, 0x144> table = [] {
    std::array<int, 0x144> out{};
    out.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      out[std::size_t(printable ? byte : next++)] = byte;
    }
    return out;
  }();
  return table;
}

/// Puts token after token into a vocabulary, up to the first error.
struct Filler {
  const std::string& path;
  Vocabulary vocabulary;
  std::size_t bytes = 0;

  Result<void> add(std::string_view piece, std::optional<TokenId> id) {
    const auto wrong = [&](const std::string& what) {
      return fail(ErrorCode::corrupt, path + ": " + what, damaged_tokenizer_hint);
    };
    if (!id)
      return wrong(fmt::format("the id of token {} is not from 0 to {}", shown(piece),
                               limits::vocabulary_max - 1));
    bytes += piece.size();
    if (piece.size() > limits::token_bytes_max || bytes > limits::vocabulary_bytes_max)
      return wrong(fmt::format("token {} has more than {} bytes, or all together more than {}",
                               shown(piece), limits::token_bytes_max,
                               limits::vocabulary_bytes_max));
    const auto& tokens = vocabulary.tokens();
    const auto at = std::size_t(*id);
    if (at < tokens.size() && tokens[at].known)
      return wrong(fmt::format("tokens {} and {} have the same id {}", shown(tokens[at].piece),
                               shown(piece), *id));
    if (!vocabulary.add(piece, *id))
      return wrong(fmt::format("token {} is there twice", shown(piece)));
    return {};
  }
};

} // namespace

Result<Vocabulary> Vocabulary::read(const std::string& path, const json::value* vocab) {
  Filler filler{path, {}};
  const json::object* by_piece = vocab ? vocab->if_object() : nullptr;
  const json::array* by_id = vocab ? vocab->if_array() : nullptr;
  if (!(by_piece && !by_piece->empty()) && !(by_id && !by_id->empty()))
    return fail(ErrorCode::corrupt, path + ": the model has no vocab", damaged_tokenizer_hint);
  if (by_piece)
    for (const auto& [piece, id] : *by_piece)
      if (auto added = filler.add(piece, id_of(&id)); !added)
        return tl::unexpected(added.error());
  if (by_id && by_id->size() > std::size_t(limits::vocabulary_max))
    return fail(ErrorCode::corrupt,
                fmt::format("{}: the model has more than {} tokens", path, limits::vocabulary_max),
                damaged_tokenizer_hint);
  for (std::size_t id = 0; by_id && id < by_id->size(); ++id) {
    const json::array* entry = (*by_id)[id].if_array();
    if (!entry || entry->size() != 2 || !(*entry)[0].is_string() ||
        (!(*entry)[1].is_number() && !(*entry)[1].is_null()))
      return fail(ErrorCode::corrupt,
                  fmt::format("{}: token {} is not a piece and a score", path, id),
                  damaged_tokenizer_hint);
    if (auto added = filler.add((*entry)[0].get_string(), TokenId(id)); !added)
      return tl::unexpected(added.error());
  }
  return std::move(filler.vocabulary);
}

bool Vocabulary::add(std::string_view piece, TokenId id, bool special) {
  if (tokens_.size() <= std::size_t(id))
    tokens_.resize(std::size_t(id) + 1);
  Token& token = tokens_[std::size_t(id)];
  const auto other = find(piece);
  if ((token.known && token.piece != piece) || (other && *other != id))
    return false;
  token = {std::string(piece), true, token.special || special};
  ids_.emplace(token.piece, id);
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::array<TokenId, 256> Vocabulary::byte_fallback_tokens() const {
  std::array<TokenId, 256> out{};
  for (std::size_t byte = 0; byte < out.size(); ++byte)
    out[byte] = find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return out;
}

std::optional<TokenId> id_of(const json::value* value) {
  const auto id = value && value->is_int64() ? value->get_int64() : std::int64_t(-1);
  return id >= 0 && id < limits::vocabulary_max ? std::optional(TokenId(id)) : std::nullopt;
}

std::optional<std::string> spelled_bytes(std::string_view piece) {
  const auto& table = byte_of_code_point();
  std::string out;
  while (!piece.empty()) {
    const Character c = first_character(piece);
    if (c.point >= table.size() || table[c.point] < 0)
      return {};
    out += char(table[c.point]);
    piece.remove_prefix(c.size);
  }
  return out;
}

} // namespace paceline::text
