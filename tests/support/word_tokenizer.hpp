// A tokenizer of the words it is given, by their ids: two of them are two vocabularies.
#pragma once

#include "text/tokenizer.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// Encodes by longest matches; bytes that no word begins with are left out. opening: an id that
/// stands before every text, and is special; -1: none does.
class WordTokenizer final : public text::Tokenizer {
public:
  explicit WordTokenizer(std::vector<std::string> words, TokenId opening = -1)
      : words_(std::move(words)), opening_(opening) {}

  std::vector<TokenId> encode(std::string_view text, bool add_special) const override {
    std::vector<TokenId> ids;
    if (add_special && opening_ >= 0)
      ids.push_back(opening_);
    while (!text.empty()) {
      const TokenId id = longest(text);
      if (id >= 0)
        ids.push_back(id);
      text.remove_prefix(id < 0 ? 1 : words_[std::size_t(id)].size());
    }
    return ids;
  }
  std::string bytes(TokenId id, bool keep_special) const override {
    return id == opening_ && !keep_special ? std::string() : piece(id);
  }
  std::string piece(TokenId id) const override {
    return known(id) ? words_[std::size_t(id)] : std::string();
  }
  int vocabulary() const override { return int(words_.size()); }
  bool known(TokenId id) const override { return id >= 0 && id < vocabulary(); }
  std::vector<TokenId> special_ids() const override {
    return opening_ < 0 ? std::vector<TokenId>() : std::vector{opening_};
  }

private:
  TokenId longest(std::string_view text) const {
    TokenId found = -1;
    std::size_t length = 0;
    for (TokenId id = 0; id < vocabulary(); ++id) {
      const std::string& word = words_[std::size_t(id)];
      if (id != opening_ && word.size() > length && text.starts_with(word)) {
        found = id;
        length = word.size();
      }
    }
    return found;
  }

  std::vector<std::string> words_;
  TokenId opening_;
};

} // namespace paceline::testing
