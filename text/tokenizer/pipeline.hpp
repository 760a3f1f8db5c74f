// A tokenizer in the parts that tokenizer.json describes: normaliser, pre-tokenizer, model,
// post-processor and decoder, and the tokens that are matched before any of them.
#pragma once

#include "text/tokenizer.hpp"
#include "text/tokenizer/added_tokens.hpp"
#include "text/tokenizer/bpe.hpp"
#include "text/tokenizer/decoder.hpp"
#include "text/tokenizer/normalizer.hpp"
#include "text/tokenizer/post_processor.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"
#include "text/tokenizer/unigram.hpp"
#include "text/tokenizer/vocabulary.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <variant>
#include <vector>

namespace paceline::text {

class Pipeline final : public Tokenizer {
public:
  /// Reads a tokenizer. A part that is not known here is refused by name. path: for messages.
  static Result<std::shared_ptr<const Tokenizer>> read(const std::string& path,
                                                       const boost::json::object& root);

  std::vector<TokenId> encode(std::string_view text, bool add_special) const override {
    return encode_as({add_special, true, {}}, text);
  }
  std::vector<TokenId> encode_as(const Encoding& how, std::string_view text) const override;
  std::string mark_special(std::string_view text, std::string_view mark) const override;
  std::string bytes(TokenId id, bool keep_special) const override;
  std::string first_bytes(TokenId id, bool keep_special, Opening& opening) const override;
  Opening opening() const override { return {true, decoder_.strip().count}; }
  std::string piece(TokenId id) const override;
  int vocabulary() const override { return int(vocabulary_.tokens().size()); }
  bool known(TokenId id) const override;
  std::vector<TokenId> special_ids() const override;

private:
  using Model = std::variant<Bpe, Unigram>;
  struct Run; ///< One text's encoding: ids so far, and memory reused for each piece.

  Result<void> read_model(const std::string& path, const boost::json::object& root);
  Result<void> read_added_tokens(const std::string& path, const boost::json::value* list);
  void encode_part(std::string_view part, bool at_start, Run& run) const;
  void encode_plain(std::string_view text, bool at_start, Run& run) const;
  const std::string& spelling(TokenId id) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Model model_;
  PostProcessor post_processor_;
  Decoder decoder_;
  Vocabulary vocabulary_;
  struct Added {
    AddedTokens raw;        ///< Tokens matched in the original text.
    AddedTokens normalized; ///< Tokens matched in the normalised text.
  };
  Added added_;         ///< All added tokens.
  Added not_special_;   ///< Tokens that are not special, and can be parts of any text.
  AddedTokens special_; ///< Special tokens, as they are spelled.
  boost::unordered_flat_map<TokenId, std::string> normalized_spellings_;
  std::vector<std::string> bytes_; ///< Each id's bytes, as decoder_ gives them inside a text.
};

} // namespace paceline::text
