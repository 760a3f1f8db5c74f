#include "apps/terminal/chat/shade.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

const char* code_of(TokenSource source) {
  switch (source) {
  case TokenSource::target: return "1";     // Bold, since these are the expensive ones.
  case TokenSource::draft: return "36";     // Cyan.
  case TokenSource::lookahead: return "32"; // Green.
  }
  return "0";
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

} // namespace

void Shader::token(std::string_view bytes, TokenSource source) {
  if (!bytes.empty())
    waiting_.push_back({bytes.size(), source});
}

std::deque<Shader::Part> Shader::cut(std::string_view text) {
  std::deque<Part> parts;
  while (!text.empty()) {
    std::size_t end = text.size(); // Text that no token announced is the target's.
    TokenSource source = TokenSource::target;
    if (!waiting_.empty()) {
      Length& first = waiting_.front();
      end = std::min(first.bytes, text.size());
      source = first.source;
      first.bytes -= end;
      if (first.bytes == 0)
        waiting_.pop_front();
    }
    // The cut goes back to a character's beginning: the character belongs to the token that
    // completes it.
    std::size_t cut = end;
    while (cut > 0 && cut < text.size() && continues(text[cut]))
      --cut;
    if (cut < end && !waiting_.empty())
      waiting_.front().bytes += end - cut;
    else
      cut = end;
    if (cut > 0 && !parts.empty() && parts.back().source == source)
      parts.back().text += text.substr(0, cut);
    else if (cut > 0)
      parts.push_back({std::string(text.substr(0, cut)), source});
    text.remove_prefix(cut);
  }
  return parts;
}

std::string shaded(std::string_view text, TokenSource source) {
  std::string out;
  while (!text.empty()) {
    const std::size_t line = std::min(text.find('\n'), text.size());
    if (line > 0)
      out += fmt::format("\x1b[{}m{}\x1b[0m", code_of(source), text.substr(0, line));
    text.remove_prefix(line);
    const std::size_t ends = std::min(text.find_first_not_of('\n'), text.size());
    out += text.substr(0, ends);
    text.remove_prefix(ends);
  }
  return out;
}

std::string shade_legend() {
  return shaded("target", TokenSource::target) + " " + shaded("draft", TokenSource::draft) + " " +
         shaded("lookahead", TokenSource::lookahead);
}

} // namespace paceline::apps
