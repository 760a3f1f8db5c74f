// From a conversation to the text that a chat model was trained on, by the checkpoint's own
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

/// A Jinja template, or the part of that language that the templates of chat models use
/// (docs/terminal.md lists it), read as `transformers` does. Immutable. Threads: all members from
/// any.
class ChatTemplate {
public:
  /// Text that the template may name, such as bos_token.
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// name: where the source comes from, for messages.
  static Result<ChatTemplate> parse(const std::string& name, std::string_view source,
                                    Variables variables = {});
  /// Of a model that brings no template of its own, `opening` before the text:
  /// "User: ...", "Assistant: ...", each followed by an empty line; a system's text stands alone.
  static ChatTemplate plain(const std::string& opening);

  /// The conversation's text. now: local time, for templates that tell the date. variables: go
  /// before the template's own. Errors: what the template refuses (invalid_argument), does not know
  /// how to do (unsupported) or exceeds.
  Result<std::string> render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                             const std::tm& now, const TemplateVariables& variables = {}) const;
  /// Texts that end an answer, for a format that has no token of its own for that.
  const std::vector<std::string>& stops() const { return stops_; }

private:
  ChatTemplate() = default;

  std::shared_ptr<const jinja::Template> template_;
  Variables variables_;
  std::vector<std::string> stops_;
};

} // namespace paceline::text
