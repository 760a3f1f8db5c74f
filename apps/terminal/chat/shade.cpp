#include "apps/terminal/chat/shade.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

std::string_view code_of(TokenSource source) {
  switch (source) {
  case TokenSource::target: return "1";     // Bold, since these are the expensive ones.
  case TokenSource::draft: return "36";     // Cyan.
  case TokenSource::lookahead: return "32"; // Green.
  }
  return {};
}

} // namespace

Shade::Shade(TokenSource source) : code(code_of(source)) {}

void Shader::token(std::string_view bytes, TokenSource source) {
  cutter_.token(bytes.size());
  sources_.push_back(source);
}

std::vector<Shader::Part> Shader::cut(std::string_view text) {
  std::vector<Part> parts;
  for (TokenCutter::Part& part : cutter_.cut(text)) {
    for (; first_ < part.token && !sources_.empty(); ++first_)
      sources_.pop_front();
    const TokenSource source = sources_.empty() ? TokenSource::target : sources_.front();
    if (!parts.empty() && parts.back().source == source)
      parts.back().text += part.text;
    else
      parts.push_back({std::move(part.text), source});
  }
  return parts;
}

std::string shaded(std::string_view text, Shade shade) {
  if (shade.code.empty())
    return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t line = std::min(text.find('\n'), text.size());
    if (line > 0)
      out += fmt::format("\x1b[{}m{}\x1b[0m", shade.code, text.substr(0, line));
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
