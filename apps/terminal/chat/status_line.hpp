// A line of figures below the text that is being written.
#pragma once

#include <string>
#include <string_view>

namespace paceline::apps {

/// Makes the codes that show a status in the line below the text and put the cursor back at the
/// text's end. It counts no columns and needs no region of the screen: whatever the window's size
/// became meanwhile, the status is what stands behind the cursor, and is erased with it.
class StatusLine {
public:
  /// Returns what to print for `text`: the status is removed before it and, if there is `room`, put
  /// back behind it. The cursor must then not be at the very end of a line, where terminals differ
  /// in what going back means. columns: of the screen, now.
  std::string write(std::string_view text, int columns, bool room = true);
  /// Sets the figures, from the next `write` on.
  void set(std::string status) { status_ = std::move(status); }
  /// Returns what to print so that no status is left.
  std::string clear();

private:
  std::string status_;
  bool shown_ = false;
};

} // namespace paceline::apps
