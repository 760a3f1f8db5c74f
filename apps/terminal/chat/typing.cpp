#include "apps/terminal/chat/typing.hpp"

#include <utility>

namespace paceline::apps {
namespace {

constexpr const char* goes_on_prompt = ". ";
constexpr const char* no_result = "error: the user has no result of this call";

} // namespace

Result<std::optional<ChatCommand>> Typing::command() {
  for (;;) {
    Typed typed = source_->next(message_.begun() ? goes_on_prompt : "> ");
    if (typed.kind == Typed::Kind::end)
      return rest();
    if (typed.kind == Typed::Kind::interrupted) {
      message_.forget();
      continue;
    }
    const bool first = !message_.begun();
    auto whole = message_.feed(typed.line);
    if (!whole)
      continue;
    const bool several = !first || typed.kind == Typed::Kind::pasted;
    if (several || typed.line.empty()) // Several lines are said, whatever they begin with.
      return ChatCommand{ChatCommand::Kind::say, *std::move(whole)};
    return parse_chat_line(*whole).map(
        [](ChatCommand&& command) { return std::optional(std::move(command)); });
  }
}

/// Returns an unfinished message at the end of the input, so that it is not lost.
std::optional<ChatCommand> Typing::rest() {
  if (!message_.begun())
    return {};
  return ChatCommand{ChatCommand::Kind::say, message_.take()};
}

std::optional<std::string> Typing::result(const std::string& function) {
  const std::string prompt = "result of " + function + "> ";
  for (;;) {
    const Typed typed = source_->next(message_.begun() ? goes_on_prompt : prompt);
    if (typed.kind == Typed::Kind::interrupted) {
      message_.forget();
      return std::nullopt;
    }
    if (typed.kind == Typed::Kind::end)
      return message_.begun() ? std::optional(message_.take()) : std::nullopt;
    const bool skips = !message_.begun() && (typed.line.empty() || typed.line == "/skip");
    if (skips)
      return no_result;
    if (auto whole = message_.feed(typed.line))
      return whole;
  }
}

} // namespace paceline::apps
