// Streamed text in lines that end between words.
#pragma once

#include "apps/terminal/chat/shade.hpp"

#include <string>
#include <string_view>

namespace paceline::apps {

/// Ends lines between words, before the terminal would end them within one. A word is kept back
/// until it is whole: text that was shown cannot be taken back once the window has changed its
/// size. The blanks at the end of a line are left out.
class WordWrap {
public:
  /// Returns what to print now that `text` has come, in its shade. columns: most columns of a line.
  std::string write(std::string_view text, Shade shade, int columns);
  /// Returns the word that was kept back.
  std::string finish(int columns);
  /// Returns how many columns of the last line are written.
  int column() const { return column_; }

private:
  std::string take(std::string_view first, int columns);
  std::string place(int columns);
  void paint();

  std::string blanks_; ///< Blanks before the word.
  std::string word_;   ///< The word with the codes of its shades.
  std::string plain_;  ///< The end of the word that has no shade yet.
  Shade shade_;        ///< The shade of that end.
  int width_ = 0;      ///< Columns of the word.
  int column_ = 0;
};

} // namespace paceline::apps
