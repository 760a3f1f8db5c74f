// Turns a conversation into the text that a chat model was trained on, by the checkpoint's own
// template.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/error.hpp"

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text {

namespace jinja {
struct Template;
}

/// A Jinja template, or rather the part of that language that the templates of chat models use
/// (docs/terminal.md lists it), read as `transformers` does. Immutable. Threads: all members from
/// any.
class ChatTemplate {
public:
  /// Texts that the template may name, such as bos_token.
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// Reads a template. name: the place of its source, for messages.
  static Result<ChatTemplate> parse(const std::string& name, std::string_view source,
                                    Variables variables = {});
  /// Makes the format of a model without a template of its own: `opening`, then "User: ...",
  /// "Assistant: ...", each followed by an empty line; a system's text stands alone.
  static ChatTemplate plain(const std::string& opening);

  /// Returns the conversation's text. now: local time, for templates that tell the date. variables:
  /// replace the template's own. Errors: what the template refuses (invalid_argument), cannot do
  /// here (unsupported) or exceeds.
  Result<std::string> render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                             const std::tm& now, const TemplateVariables& variables = {}) const;
  /// Returns the template as it was read.
  const std::string& source() const { return source_; }
  /// Returns texts that end an answer, for a format that has no token for that.
  const std::vector<std::string>& stops() const { return stops_; }

private:
  ChatTemplate() = default;

  std::shared_ptr<const jinja::Template> template_;
  std::string source_;
  Variables variables_;
  std::vector<std::string> stops_;
};

} // namespace paceline::text
