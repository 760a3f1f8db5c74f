#include "apps/terminal/chat/word_wrap.hpp"

#include "apps/console/screen_text.hpp"

#include <utility>

namespace paceline::apps {
namespace {

constexpr int tab_columns = 8;

int column_after(std::string_view blanks, int column) {
  for (const char blank : blanks)
    column = blank == '\t' ? (column / tab_columns + 1) * tab_columns : column + 1;
  return column;
}

} // namespace

std::string WordWrap::write(std::string_view text, Shade shade, int columns) {
  shade_ = shade;
  std::string out;
  while (!text.empty()) {
    const std::string_view first = first_character(text);
    out += take(first, columns);
    text.remove_prefix(first.size());
  }
  paint();
  return out;
}

std::string WordWrap::finish(int columns) {
  return place(columns);
}

std::string WordWrap::take(std::string_view first, int columns) {
  if (first == "\n") {
    const std::string out = place(columns) + "\n";
    blanks_.clear();
    column_ = 0;
    return out;
  }
  if (first == " " || first == "\t") {
    std::string out = place(columns);
    blanks_ += first;
    return out;
  }
  // Scripts without blanks, whose characters are wide, break anywhere; so do overlong words.
  const int width = display_width(first);
  std::string out = width > 1 || width_ + width > columns ? place(columns) : std::string();
  plain_ += first;
  width_ += width;
  return width > 1 ? out + place(columns) : out;
}

/// Puts the word behind its blanks, or at the beginning of a new line.
std::string WordWrap::place(int columns) {
  paint();
  if (word_.empty())
    return {};
  const int begin = column_after(blanks_, column_);
  const bool fits = column_ == 0 || begin + width_ <= columns;
  std::string out = (fits ? blanks_ : "\n") + word_;
  column_ = (fits ? begin : 0) + width_;
  blanks_.clear();
  word_.clear();
  width_ = 0;
  return out;
}

void WordWrap::paint() {
  if (!plain_.empty())
    word_ += shaded(plain_, shade_);
  plain_.clear();
}

} // namespace paceline::apps
