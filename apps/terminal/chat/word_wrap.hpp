// Streamed text in lines that end between words.
#pragma once

#include "paceline/event.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Ends lines itself, between words, before the terminal would end them within one. A word is kept
/// back until it is whole: what was shown cannot be taken back once the window has changed its
/// size. Where a line ends, the blanks between its words are left out.
class WordWrap {
public:
  /// What to print now that `text` has come, in the shade of its source if one is given.
  /// columns: of the widest line.
  std::string write(std::string_view text, std::optional<TokenSource> source, int columns);
  /// The word that was kept back.
  std::string finish(int columns);
  /// Columns of the last line that are written.
  int column() const { return column_; }

private:
  std::string take(std::string_view first, int columns);
  std::string place(int columns);
  void paint();

  std::string blanks_; ///< Before the word.
  std::string word_;   ///< With the codes of its shades,
  std::string plain_;  ///< and what of it has no shade yet.
  std::optional<TokenSource> source_;
  int width_ = 0; ///< Of the word.
  int column_ = 0;
};

} // namespace paceline::apps
