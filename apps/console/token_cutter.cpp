#include "apps/console/token_cutter.hpp"

#include <algorithm>

namespace paceline::apps {
namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

} // namespace

void TokenCutter::token(std::size_t bytes) {
  waiting_.push_back(bytes);
}

std::vector<TokenCutter::Part> TokenCutter::cut(std::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    const std::size_t token = first_;
    std::size_t end = text.size();
    if (!waiting_.empty()) {
      std::size_t& bytes = waiting_.front();
      end = std::min(bytes, text.size());
      bytes -= end;
      if (bytes == 0) {
        waiting_.pop_front();
        ++first_;
      }
    }
    // The cut goes back to a character's beginning: the character belongs to the token that
    // completes it.
    std::size_t cut = end;
    while (cut > 0 && cut < text.size() && continues_character(text[cut]))
      --cut;
    if (cut < end && !waiting_.empty())
      waiting_.front() += end - cut;
    else
      cut = end;
    if (cut > 0)
      parts.push_back({std::string(text.substr(0, cut)), token});
    text.remove_prefix(cut);
  }
  return parts;
}

} // namespace paceline::apps
