#include "apps/terminal/chat/lines.hpp"

#include <iostream>
#include <utility>

namespace paceline::apps {
namespace {

class PlainSource final : public LineSource {
public:
  Typed next(const std::string& /*prompt*/) override {
    std::string line;
    if (!std::getline(std::cin, line))
      return {Typed::Kind::end, {}};
    if (line.ends_with('\r'))
      line.pop_back();
    return {Typed::Kind::line, std::move(line)};
  }
};

} // namespace

std::unique_ptr<LineSource> make_plain_source() {
  return std::make_unique<PlainSource>();
}

std::string pasted_text(std::string_view sent) {
  std::string text;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const char c = sent[i];
    const bool line_end = c == '\r' || c == '\n';
    if (c == '\r' && sent.substr(i + 1).starts_with('\n'))
      continue;
    if (line_end)
      text += '\n';
    else if (c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != '\x7f'))
      text += c;
  }
  while (text.ends_with('\n'))
    text.pop_back();
  return text;
}

std::optional<std::string> MessageReader::feed(const std::string& line) {
  const bool mark = line == "\"\"\"";
  if (mark && !begun_) {
    begun_ = quoted_ = true;
    return {};
  }
  const bool goes_on = quoted_ ? !mark : line.ends_with('\\');
  const std::string own = goes_on && !quoted_ ? line.substr(0, line.size() - 1) : line;
  if (!(quoted_ && mark))
    text_ += (has_lines_ ? "\n" : "") + own;
  has_lines_ = begun_ = true;
  if (goes_on)
    return {};
  return take();
}

std::string MessageReader::take() {
  std::string whole = std::move(text_);
  forget();
  return whole;
}

void MessageReader::forget() {
  text_.clear();
  begun_ = quoted_ = has_lines_ = false;
}

} // namespace paceline::apps
