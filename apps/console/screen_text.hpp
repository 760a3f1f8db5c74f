// Text on a terminal: which characters are safe to print, and how wide they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Makes a model's text safe to print, since models write anything, escape sequences too. Control
/// characters other than line ends and tabs become visible signs, and so do the characters that
/// reverse the direction of text. text: whole UTF-8 characters.
std::string printable(std::string_view text);

/// Returns the text as standard error shows it: if that is a terminal, in lines of its width that
/// end between words.
std::string for_errors(const std::string& text);

/// Returns the bytes of the first character. text: not empty.
std::string_view first_character(std::string_view text);

/// Returns the width in columns; tabs count as one, combining characters as none. text: one line.
int display_width(std::string_view text);

/// Returns as much of a line's beginning as fits into `columns`.
std::string_view clipped(std::string_view text, int columns);
/// Returns the line clipped, or filled up with blanks.
std::string fitted(std::string_view text, int columns);

/// Returns the text's lines, none wider than `columns`; tabs become blanks.
std::vector<std::string> wrapped(std::string_view text, int columns);
/// Does the same, but keeps words whole if they fit into a line.
std::vector<std::string> wrapped_words(std::string_view text, int columns);
/// Returns those lines as one text; the last one has no line end.
std::string in_lines(std::string_view text, int columns);

} // namespace paceline::apps
