#include "text/tokenizer/pipeline.hpp"

#include "text/limits.hpp"
#include "text/tokenizer/unicode.hpp"
#include "text/utf8.hpp"

#include <boost/algorithm/string/erase.hpp>
#include <boost/json/array.hpp>
#include <fmt/format.h>

namespace paceline::text {
namespace json = boost::json;

Result<std::shared_ptr<const Tokenizer>> Pipeline::read(const std::string& path,
                                                        const json::object& root) {
  const auto part = [&](const char* key) { return root.if_contains(key); };
  auto out = std::make_shared<Pipeline>();
  const auto put = [](auto& into) { return [&into](auto read) { into = std::move(read); }; };
  auto done = Normalizer::read(path, part("normalizer"))
                  .map(put(out->normalizer_))
                  .and_then([&] { return PreTokenizer::read(path, part("pre_tokenizer")); })
                  .map(put(out->pre_tokenizer_))
                  .and_then([&] { return out->read_model(path, root); })
                  .and_then([&] { return PostProcessor::read(path, part("post_processor")); })
                  .map(put(out->post_processor_))
                  .and_then([&] { return Decoder::read(path, part("decoder")); })
                  .map(put(out->decoder_))
                  .and_then([&] { return out->read_added_tokens(path, part("added_tokens")); });
  if (!done)
    return tl::unexpected(done.error());
  for (TokenId id = 0; id < out->vocabulary(); ++id)
    out->bytes_.push_back(out->known(id) ? out->decoder_.bytes(out->spelling(id)) : std::string());
  return out;
}

Result<void> Pipeline::read_model(const std::string& path, const json::object& root) {
  const json::value* value = root.if_contains("model");
  if (!value || !value->is_object())
    return fail(ErrorCode::corrupt, path + ": there is no model", damaged_tokenizer_hint);
  Part part(path, "model", value->get_object());
  // Files of the first versions have no type if it is BPE.
  const bool is_bpe = part.type() == "BPE" || !part.object().contains("type");
  if (!is_bpe && part.type() != "Unigram")
    return part.refuse();
  const bool byte_level = pre_tokenizer_.byte_level();
  if (!is_bpe && byte_level)
    return part.refuse("a ByteLevel pre_tokenizer in front");
  auto vocabulary = Vocabulary::read(path, part.fields().find("vocab"));
  if (!vocabulary)
    return tl::unexpected(vocabulary.error());
  vocabulary_ = std::move(*vocabulary);
  const auto keep = [this](auto model) { model_ = std::move(model); };
  auto read = is_bpe ? Bpe::read(part, vocabulary_, byte_level).map(keep)
                     : Unigram::read(part, vocabulary_).map(keep);
  return read.and_then([&] { return part.finish(); });
}

Result<void> Pipeline::read_added_tokens(const std::string& path, const json::value* list) {
  const auto wrong = [&](const std::string& what) {
    return fail(ErrorCode::corrupt, path + ": " + what, damaged_tokenizer_hint);
  };
  if (!list || list->is_null())
    return {};
  if (!list->is_array())
    return wrong("added_tokens is not a list");
  std::vector<AddedTokens::Token> raw[2]; // [special]
  std::vector<AddedTokens::Token> normalized[2];
  std::vector<AddedTokens::Token> spelled;
  for (const json::value& value : list->get_array()) {
    const auto id = value.is_object() ? id_of(value.get_object().if_contains("id")) : std::nullopt;
    if (!id)
      return wrong("an added token lacks an id in range");
    JsonFields fields(fmt::format("{}: added token {}", path, *id), value.get_object());
    const std::string content = fields.string("content", {});
    if (content.empty() || content.size() > limits::token_bytes_max)
      return wrong(fmt::format("added token {} has no content, or too much of it", *id));
    const bool special = fields.boolean("special", false);
    if (!vocabulary_.add(content, *id, special))
      return wrong(fmt::format("added token {} contradicts the token with id {}", shown(content),
                               vocabulary_.find(content).value_or(*id)));
    const bool normalize = fields.boolean("normalized", !special);
    Text text{content};
    if (normalize) {
      normalizer_.apply(text);
      normalized_spellings_[*id] = text.characters;
    }
    if (text.characters.empty())
      return wrong(fmt::format("added token {} is nothing once it is normalised", shown(content)));
    if (special)
      spelled.push_back({content, *id});
    (normalize ? normalized : raw)[special].push_back(
        {text.characters, *id, fields.boolean("single_word", false),
         fields.boolean("lstrip", false), fields.boolean("rstrip", false)});
    if (fields.error())
      return tl::unexpected(*fields.error());
  }
  not_special_ = {AddedTokens(raw[0]), AddedTokens(normalized[0])};
  raw[0].insert(raw[0].end(), raw[1].begin(), raw[1].end());
  normalized[0].insert(normalized[0].end(), normalized[1].begin(), normalized[1].end());
  added_ = {AddedTokens(raw[0]), AddedTokens(normalized[0])};
  special_ = AddedTokens(spelled);
  return {};
}

struct Pipeline::Run {
  const Added& added;
  std::string_view mark;
  std::vector<TokenId> ids;
  Pieces pieces;
  Bpe::Scratch bpe;
  Unigram::Scratch unigram;

  void encode(const Bpe& model, std::string_view piece) { model.encode(piece, bpe, ids); }
  void encode(const Unigram& model, std::string_view piece) { model.encode(piece, unigram, ids); }
};

std::vector<TokenId> Pipeline::encode_as(const Encoding& how, std::string_view text) const {
  const std::string valid = sanitize_utf8(text);
  Run run{how.parse_special ? added_ : not_special_, how.mark, {}, {}, {}, {}};
  run.ids.reserve(valid.size() / 3 + 1);
  if (how.add_special)
    run.ids = post_processor_.before;
  run.added.raw.split(
      valid,
      [&](std::size_t begin, std::size_t end) {
        encode_part(std::string_view(valid).substr(begin, end - begin), begin == 0, run);
      },
      [&](TokenId id) { run.ids.push_back(id); });
  if (how.add_special)
    run.ids.insert(run.ids.end(), post_processor_.after.begin(), post_processor_.after.end());
  return std::move(run.ids);
}

/// Encodes the text between tokens that are matched in the original text.
void Pipeline::encode_part(std::string_view part, bool at_start, Run& run) const {
  Text text{std::string(part), at_start};
  normalizer_.apply(text);
  run.added.normalized.split(
      text.characters,
      [&](std::size_t begin, std::size_t end) {
        encode_plain(std::string_view(text.characters).substr(begin, end - begin),
                     text.at_start && begin == 0, run);
      },
      [&](TokenId id) { run.ids.push_back(id); });
}

void Pipeline::encode_plain(std::string_view text, bool at_start, Run& run) const {
  Pieces& pieces = run.pieces;
  pieces.text.characters = text;
  if (!run.mark.empty())
    boost::algorithm::erase_all(pieces.text.characters, run.mark);
  pieces.text.at_start = at_start;
  pre_tokenizer_.apply(pieces);
  std::visit(
      [&](const auto& model) {
        for (const Span& piece : pieces.spans)
          run.encode(model, piece.of(pieces.text.characters));
      },
      model_);
}

/// Puts the mark behind each of the token's characters, so that no overlapping token is found
/// either.
/// left either.
std::string Pipeline::mark_special(std::string_view text, std::string_view mark) const {
  std::string out;
  special_.split(
      text, [&](std::size_t begin, std::size_t end) { out += text.substr(begin, end - begin); },
      [&](TokenId id) {
        std::string_view spelled = vocabulary_.tokens()[std::size_t(id)].piece;
        while (!spelled.empty()) {
          const std::size_t size = first_character(spelled).size;
          out.append(spelled.substr(0, size)).append(mark);
          spelled.remove_prefix(size);
        }
      });
  return out;
}

std::string Pipeline::bytes(TokenId id, bool keep_special) const {
  const bool shown = known(id) && (keep_special || !vocabulary_.tokens()[std::size_t(id)].special);
  return shown ? bytes_[std::size_t(id)] : std::string();
}

std::string Pipeline::first_bytes(TokenId id, bool keep_special, Opening& opening) const {
  if (!known(id) || (!keep_special && vocabulary_.tokens()[std::size_t(id)].special))
    return {};
  std::string out = decoder_.bytes(spelling(id), opening.first);
  opening.first = false;
  const std::string& blank = decoder_.strip().character;
  while (opening.strip > 0 && out.starts_with(blank)) {
    out.erase(0, blank.size());
    --opening.strip;
  }
  if (!out.empty())
    opening.strip = 0;
  return out;
}

/// Returns the text that the decoder sees for a known token: an added one reads as it was found.
const std::string& Pipeline::spelling(TokenId id) const {
  const auto normalized = normalized_spellings_.find(id);
  return normalized != normalized_spellings_.end() ? normalized->second
                                                   : vocabulary_.tokens()[std::size_t(id)].piece;
}

std::string Pipeline::piece(TokenId id) const {
  return known(id) ? vocabulary_.tokens()[std::size_t(id)].piece : std::string();
}

bool Pipeline::known(TokenId id) const {
  return id >= 0 && id < vocabulary() && vocabulary_.tokens()[std::size_t(id)].known;
}

std::vector<TokenId> Pipeline::special_ids() const {
  std::vector<TokenId> out;
  for (TokenId id = 0; id < vocabulary(); ++id)
    if (vocabulary_.tokens()[std::size_t(id)].special)
      out.push_back(id);
  return out;
}

} // namespace paceline::text
