// A line of figures below the text that is being written.
#pragma once

#include <string>
#include <string_view>

namespace paceline::apps {

/// Follows where the cursor is, and gives what to print so that a status stands in the line below
/// and the cursor is back at the text's end. It needs no region of the screen of its own, so
/// nothing stays behind when the program goes.
class StatusLine {
public:
  /// What to print for `text`, shaded or not, of which `plain` is what is visible; takes the status
  /// away before it and puts it back behind it. columns: of the screen, now.
  std::string write(std::string_view text, std::string_view plain, int columns);
  /// The figures from the next `write` on.
  void set(std::string status) { status_ = std::move(status); }
  /// What to print so that no status is left.
  std::string clear();
  int column() const { return column_; }

private:
  void follow(std::string_view plain, int columns);
  std::string back() const;

  std::string status_;
  int column_ = 0; ///< Cells of the cursor's line that are written.
  bool shown_ = false;
};

} // namespace paceline::apps
