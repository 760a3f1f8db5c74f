#include "actors/tokenizer.hpp"

#include "models/sources.hpp"
#include "paceline/tokenizer.hpp"
#include "text/chat_tokens.hpp"

namespace paceline {

namespace actors {

Result<text::ChatTemplate> chat_template_of(const models::CheckpointSource& source,
                                            const text::Tokenizer& tokenizer) {
  return source.chat_template(tokenizer.decode(tokenizer.encode("", true), true));
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

} // namespace actors

class Tokenizer::Impl {
public:
  std::shared_ptr<const text::Tokenizer> tokenizer;
  Result<text::ChatTemplate> chat;
};

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<Tokenizer> Tokenizer::open(const std::string& checkpoint) {
  return models::open_checkpoint(checkpoint, "target").and_then([](const auto& source) {
    return source->tokenizer().map([&](const auto& tokenizer) {
      return Tokenizer(std::make_shared<const Impl>(
          Impl{tokenizer, actors::chat_template_of(*source, *tokenizer)}));
    });
  });
}

std::vector<TokenId> Tokenizer::tokenize(const std::string& text, bool add_special,
                                         bool parse_special) const {
  return impl_->tokenizer->encode_as({add_special, parse_special, {}}, text);
}
std::string Tokenizer::detokenize(const std::vector<TokenId>& tokens) const {
  return impl_->tokenizer->decode(tokens);
}
std::string Tokenizer::token_bytes(TokenId token, bool skip_special) const {
  return impl_->tokenizer->bytes(token, !skip_special);
}
int Tokenizer::vocabulary() const {
  return impl_->tokenizer->vocabulary();
}
Result<std::string> Tokenizer::render_chat(const std::vector<ChatMessage>& messages,
                                           const ChatOptions& how) const {
  return impl_->chat.and_then([&](const text::ChatTemplate& chat) {
    return text::chat_text(chat, messages, actors::local_time(), how);
  });
}
Result<std::vector<TokenId>> Tokenizer::chat_tokens(const std::vector<ChatMessage>& messages,
                                                    const ChatOptions& how) const {
  return impl_->chat.and_then([&](const text::ChatTemplate& chat) {
    return text::chat_tokens(*impl_->tokenizer, chat, messages, actors::local_time(), how);
  });
}
std::vector<std::string> Tokenizer::chat_stops() const {
  return impl_->chat ? impl_->chat->stops() : std::vector<std::string>();
}

} // namespace paceline
