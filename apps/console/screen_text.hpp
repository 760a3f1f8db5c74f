// Text as a terminal shows it: what is safe to print, and how wide it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Models write anything, escape sequences too. Control characters other than line ends and tabs
/// become visible signs, and so do the characters that turn the direction of text around.
/// text: whole UTF-8 characters.
std::string printable(std::string_view text);

/// What standard error is to show: where it is a terminal, in lines of its width that end between
/// words.
std::string for_errors(const std::string& text);

/// The bytes of the first character; text: not empty.
std::string_view first_character(std::string_view text);

/// Columns; tabs count as one, combining characters as none. text: one line.
int display_width(std::string_view text);

/// As much of a line's beginning as fits into `columns`.
std::string_view clipped(std::string_view text, int columns);
/// Clipped, or filled up with blanks.
std::string fitted(std::string_view text, int columns);

/// The text's lines, none wider than `columns`; tabs become blanks.
std::vector<std::string> wrapped(std::string_view text, int columns);
/// The same, but words stay whole where they fit into a line.
std::vector<std::string> wrapped_words(std::string_view text, int columns);
/// The same as one text, whose own lines stay apart; its last one has no end.
std::string in_lines(std::string_view text, int columns);

} // namespace paceline::apps
