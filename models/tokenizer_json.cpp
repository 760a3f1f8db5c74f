#include "models/tokenizer_parts.hpp"

#include "models/files.hpp"
#include "models/limits.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <optional>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* damaged_hint = "the file is damaged; download the checkpoint again";
constexpr const char* other_hint = "use a checkpoint with a byte-level BPE tokenizer";

/// GPT-2's alphabet: printable Latin-1 bytes are themselves, the others follow from U+0100 on.
/// The code points are below 0x144. -1: no byte.
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

/// The code point of the character that begins `text` (valid UTF-8), and its length.
std::pair<unsigned, std::size_t> code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80)
    return {lead, 1};
  if (lead < 0xE0 && text.size() > 1)
    return {(lead & 0x1Fu) << 6 | (static_cast<unsigned char>(text[1]) & 0x3Fu), 2};
  return {~0u, text.size()}; // beyond the alphabet
}

/// The bytes that a piece spells in this alphabet; none when it has other characters.
std::optional<std::string> spelled_bytes(std::string_view piece) {
  const auto& table = byte_of_code_point();
  std::string out;
  while (!piece.empty()) {
    const auto [point, length] = code_point(piece);
    if (point >= table.size() || table[point] < 0)
      return {};
    out += char(table[point]);
    piece.remove_prefix(length);
  }
  return out;
}

/// Takes tokenizer.json apart; the first error ends it.
class Reader {
public:
  Reader(std::string path, const json::object& root) : path_(std::move(path)), root_(root) {}

  Result<TokenizerParts> read() {
    for (const auto part : {&Reader::vocabulary, &Reader::merges, &Reader::added_tokens,
                            &Reader::normalizer, &Reader::pre_tokenizer, &Reader::the_rest})
      if (!(this->*part)())
        return tl::unexpected(error_);
    return std::move(parts_);
  }

private:
  bool wrong(std::string what) {
    error_ = {ErrorCode::corrupt, path_ + ": " + std::move(what), damaged_hint};
    return false;
  }
  bool refuse(std::string what) {
    error_ = {ErrorCode::unsupported, path_ + ": " + std::move(what) + " is not known", other_hint};
    return false;
  }
  const json::object* object_at(const json::object& in, std::string_view key) {
    const json::value* value = in.if_contains(key);
    return value ? value->if_object() : nullptr;
  }
  static std::string type_of(const json::object& object) {
    const json::value* type = object.if_contains("type");
    return type && type->is_string() ? std::string(type->get_string())
                                     : std::string("without type");
  }
  static bool flag(const json::object& object, std::string_view key, bool fallback) {
    const json::value* value = object.if_contains(key);
    return value && value->is_bool() ? value->get_bool() : fallback;
  }
  static std::optional<TokenId> id_of(const json::value* value) {
    json::error_code failed;
    const auto id = value && value->is_int64() ? value->get_int64() : std::int64_t(-1);
    return id >= 0 && id < limits::vocabulary_max ? std::optional(TokenId(id)) : std::nullopt;
  }

  TokenizerParts::Token& token(TokenId id) {
    if (parts_.tokens.size() <= std::size_t(id))
      parts_.tokens.resize(std::size_t(id) + 1);
    return parts_.tokens[std::size_t(id)];
  }

  bool vocabulary() {
    model_ = object_at(root_, "model");
    if (!model_)
      return wrong("there is no model");
    // Files of the first versions leave the type out when it is BPE.
    if (model_->contains("type") && type_of(*model_) != "BPE")
      return refuse("a model of type " + shown(type_of(*model_)));
    const json::object* vocab = object_at(*model_, "vocab");
    if (!vocab || vocab->empty())
      return wrong("the model has no vocab");
    for (const auto& [piece, value] : *vocab) {
      const auto id = id_of(&value);
      if (!id)
        return wrong(fmt::format("the id of token {} is not from 0 to {}", shown(piece),
                                 limits::vocabulary_max - 1));
      TokenizerParts::Token& t = token(*id);
      if (t.known)
        return wrong(
            fmt::format("tokens {} and {} have the same id {}", shown(t.piece), shown(piece), *id));
      t = {std::string(piece), bytes_of_piece(piece), true, false};
      ids_.emplace(t.piece, *id);
    }
    return model_options();
  }

  bool model_options() {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json::value* value = model_->if_contains(key);
      if (value && value->is_string() && !value->get_string().empty())
        return refuse(key);
    }
    if (const json::value* dropout = model_->if_contains("dropout");
        dropout && dropout->is_number() && dropout->to_number<double>() != 0)
      return refuse("dropout");
    if (flag(*model_, "byte_fallback", false))
      return refuse("byte_fallback");
    for (std::size_t id = 0; id < parts_.tokens.size(); ++id) {
      const TokenizerParts::Token& t = parts_.tokens[id];
      const auto bytes = t.known ? spelled_bytes(t.piece) : std::nullopt;
      if (bytes && bytes->size() == 1)
        parts_.bpe.byte_tokens[static_cast<unsigned char>((*bytes)[0])] = TokenId(id);
      if (bytes && flag(*model_, "ignore_merges", false))
        parts_.bpe.words.emplace(*bytes, TokenId(id));
    }
    return true;
  }

  /// A pair as "a b" or ["a", "b"].
  static std::optional<std::pair<std::string, std::string>> pair_of(const json::value& value) {
    if (value.is_string()) {
      const std::string_view text = value.get_string();
      const auto space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos)
        return {};
      return std::pair(std::string(text.substr(0, space)), std::string(text.substr(space + 1)));
    }
    if (!value.is_array() || value.get_array().size() != 2 || !value.get_array()[0].is_string() ||
        !value.get_array()[1].is_string())
      return {};
    return std::pair(std::string(value.get_array()[0].get_string()),
                     std::string(value.get_array()[1].get_string()));
  }

  bool merges() {
    const json::value* list = model_->if_contains("merges");
    if (!list || !list->is_array())
      return wrong("the model has no merges");
    std::uint32_t rank = 0;
    for (const json::value& value : list->get_array()) {
      const auto pair = pair_of(value);
      if (!pair)
        return wrong(fmt::format("merge {} is not a pair of tokens", rank));
      const auto left = ids_.find(pair->first);
      const auto right = ids_.find(pair->second);
      const auto both = ids_.find(pair->first + pair->second);
      if (left == ids_.end() || right == ids_.end() || both == ids_.end())
        return wrong(fmt::format("merge {} ({} and {}) names tokens that are not in the vocab",
                                 rank, shown(pair->first), shown(pair->second)));
      parts_.bpe.merges[Bpe::pair(left->second, right->second)] = {rank, both->second};
      ++rank;
    }
    return true;
  }

  bool added_tokens() {
    const json::value* list = root_.if_contains("added_tokens");
    if (!list || list->is_null())
      return true;
    if (!list->is_array())
      return wrong("added_tokens is not a list");
    for (const json::value& value : list->get_array())
      if (!added_token(value.if_object()))
        return false;
    parts_.raw.finish();
    parts_.normalized.finish();
    return true;
  }

  bool added_token(const json::object* entry) {
    const json::value* text = entry ? entry->if_contains("content") : nullptr;
    const auto id = entry ? id_of(entry->if_contains("id")) : std::nullopt;
    if (!text || !text->is_string() || text->get_string().empty() || !id)
      return wrong("an added token lacks its content, or an id in range");
    const std::string content(text->get_string());
    for (const char* key : {"lstrip", "rstrip", "single_word"})
      if (flag(*entry, key, false))
        return refuse(fmt::format("{} of added token {}", key, shown(content)));
    TokenizerParts::Token& t = token(*id);
    const auto other = ids_.find(content);
    if ((t.known && t.piece != content) || (other != ids_.end() && other->second != *id))
      return wrong(fmt::format("added token {} contradicts the token with id {}", shown(content),
                               t.known ? *id : other->second));
    const bool special = flag(*entry, "special", false);
    if (!added_.emplace(content, *id).second)
      return true; // a repetition of the same
    t = {content, bytes_of_piece(content), true, special};
    ids_.emplace(content, *id);
    (flag(*entry, "normalized", !special) ? parts_.normalized : parts_.raw).add(content, *id);
    return true;
  }

  bool normalizer() {
    const json::object* object = object_at(root_, "normalizer");
    return !object || read_normalizer(*object);
  }
  bool read_normalizer(const json::object& object) {
    const std::string type = type_of(object);
    if (type == "NFC") {
      parts_.nfc = true;
      return true;
    }
    const json::value* list = object.if_contains("normalizers");
    if (type != "Sequence" || !list || !list->is_array())
      return refuse("a normalizer of type " + shown(type));
    for (const json::value& value : list->get_array())
      if (!value.is_object() || !read_normalizer(value.get_object()))
        return value.is_object() ? false : wrong("a normalizer is not an object");
    return true;
  }

  bool pre_tokenizer() {
    const json::object* object = object_at(root_, "pre_tokenizer");
    if (!object)
      return refuse("a tokenizer without pre_tokenizer");
    if (!read_pre_tokenizer(*object))
      return false;
    return byte_level_ || refuse("a pre_tokenizer without ByteLevel");
  }
  bool read_pre_tokenizer(const json::object& object) {
    const std::string type = type_of(object);
    if (byte_level_)
      return refuse("a pre_tokenizer of type " + shown(type) + " after ByteLevel");
    if (type == "Split")
      return split(object);
    if (type == "ByteLevel")
      return byte_level(object);
    const json::value* list = object.if_contains("pretokenizers");
    if (type != "Sequence" || !list || !list->is_array())
      return refuse("a pre_tokenizer of type " + shown(type));
    for (const json::value& value : list->get_array())
      if (!value.is_object() || !read_pre_tokenizer(value.get_object()))
        return value.is_object() ? false : wrong("a pre_tokenizer is not an object");
    return true;
  }
  bool split(const json::object& object) {
    const json::value* behavior = object.if_contains("behavior");
    if (!behavior || !behavior->is_string() || behavior->get_string() != "Isolated" ||
        flag(object, "invert", false))
      return refuse("a Split that is not Isolated");
    const json::object* pattern = object_at(object, "pattern");
    const json::value* text = pattern ? pattern->if_contains("Regex") : nullptr;
    if (!text || !text->is_string())
      return refuse("a Split without Regex");
    return add_split(std::string(text->get_string()));
  }
  bool byte_level(const json::object& object) {
    byte_level_ = true;
    if (flag(object, "add_prefix_space", true))
      return refuse("ByteLevel's add_prefix_space");
    return !flag(object, "use_regex", true) || add_split(gpt2_expression);
  }
  bool add_split(const std::string& expression) {
    auto splitter = Splitter::compile(expression, path_);
    if (!splitter) {
      error_ = splitter.error();
      return false;
    }
    parts_.splits.push_back(std::move(*splitter));
    return true;
  }

  bool the_rest() {
    for (const char* key : {"post_processor", "decoder"})
      if (const json::object* object = object_at(root_, key);
          object && type_of(*object) != "ByteLevel")
        return refuse(fmt::format("a {} of type {}", key, shown(type_of(*object))));
    return true;
  }

  std::string path_;
  const json::object& root_;
  const json::object* model_ = nullptr;
  bool byte_level_ = false;
  boost::unordered_flat_map<std::string, TokenId> ids_;
  boost::unordered_flat_map<std::string, TokenId> added_;
  TokenizerParts parts_;
  Error error_;
};

} // namespace

std::string bytes_of_piece(std::string_view piece) {
  return spelled_bytes(piece).value_or(std::string(piece));
}

Result<TokenizerParts> read_tokenizer(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  const auto root = read_json_object(path);
  if (!root)
    return tl::unexpected(root.error());
  return Reader(shown_path(path), *root).read();
}

} // namespace paceline::models
