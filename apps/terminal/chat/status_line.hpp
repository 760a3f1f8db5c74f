// A line of figures below the text that is being written.
#pragma once

#include <string>
#include <string_view>

namespace paceline::apps {

/// Gives what to print so that a status stands in the line below the text and the cursor is back at
/// the text's end. It counts no columns and needs no region of the screen: whatever the window's
/// size became meanwhile, the status is what stands behind the cursor, and goes with it.
class StatusLine {
public:
  /// What to print for `text`: takes the status away before it and, where there is `room`, puts it
  /// back behind it. The cursor must not be at the very end of a line then, where terminals differ
  /// in what going back means. columns: of the screen, now.
  std::string write(std::string_view text, int columns, bool room = true);
  /// The figures from the next `write` on.
  void set(std::string status) { status_ = std::move(status); }
  /// What to print so that no status is left.
  std::string clear();

private:
  std::string status_;
  bool shown_ = false;
};

} // namespace paceline::apps
