// A checkpoint's tokenizer and chat template, as an engine has them, without an engine.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline {

/// The tokenizer and the chat template of a checkpoint, whose weights are not read. Its members are
/// those of the same names in Engine. Cheap to copy. Threads: all members from any.
class Tokenizer {
public:
  /// checkpoint: as in EngineOptions::target. Errors: a part of it is missing, damaged or unknown.
  static Result<Tokenizer> open(const std::string& checkpoint);

  /// add_special: adds what the checkpoint puts before a text (such as a BOS). parse_special:
  /// special tokens that the text spells become those tokens; else they are text.
  std::vector<TokenId> tokenize(const std::string& text, bool add_special = true,
                                bool parse_special = false) const;
  std::string detokenize(const std::vector<TokenId>& tokens) const;
  /// Returns the bytes of one token inside a text; they may be a part of a UTF-8 character.
  /// skip_special: a special token has none.
  std::string token_bytes(TokenId token, bool skip_special = true) const;
  int vocabulary() const;

  /// These do what Engine::render_chat, chat_tokens and chat_stops do.
  Result<std::string> render_chat(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& how = {}) const;
  Result<std::vector<TokenId>> chat_tokens(const std::vector<ChatMessage>& messages,
                                           const ChatOptions& how = {}) const;
  std::vector<std::string> chat_stops() const;

  class Impl;

private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

} // namespace paceline
