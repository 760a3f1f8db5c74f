// Standard output and standard error, with care for terminals and for readers that go away.
#pragma once

#include "paceline/error.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <termios.h>
#include <thread>

namespace paceline::apps {

/// Standard output, unbuffered. It remembers how it failed: a reader that has gone away (a broken
/// pipe) is no error, only a reason to stop; any other failure, such as a full disk, is an error.
class Output {
public:
  /// Writes the text. Returns false once nothing can be written any more.
  bool write(std::string_view text);
  bool open() const { return error_number_ == 0; }
  /// Returns an error unless all was written or the reader went away.
  Result<void> finish() const;

private:
  int error_number_ = 0;
};

/// Writes a remark on standard error, and ignores failures. Adds no newline.
void note(std::string_view text);

bool output_is_terminal();
bool errors_are_terminal();
bool input_is_terminal();

/// Whether the terminal can go back over what it shows: TERM is set, and not "dumb".
bool moves_cursor(bool terminal);
/// Whether it can do that, and NO_COLOR is not set.
bool shows_color(bool terminal);

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};
/// Returns the size of the terminal at standard output; if that is no terminal, the usual size.
ScreenSize screen_size();

/// Hides typing while it lives: a terminal at standard input does not show what is typed, which
/// would land in the midst of the program's output. Whoever reads next gets it, unless Ctrl-C came
/// behind it.
class HiddenTyping {
public:
  HiddenTyping();
  ~HiddenTyping();
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

private:
  std::optional<termios> before_; ///< None: standard input is no terminal.
};

/// Returns the text dim or bold if standard output (or standard error) is a terminal that shows
/// color.
std::string dim(std::string_view text, bool terminal);
std::string bold(std::string_view text, bool terminal);

/// A line on standard error that is rewritten in place while some work takes longer than a moment,
/// and leaves nothing behind. Silent unless standard error is a terminal.
class ProgressLine {
public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows the progress. done: 0 to 1.
  void show(std::string_view what, double done);
  void clear();

private:
  std::chrono::steady_clock::time_point next_;
  bool enabled_;
  bool shown_ = false;
};

/// A line like it for work whose progress nobody knows: it shows how long the work has taken, from
/// a moment after its construction until `over`. It has a thread of its own.
class Patience {
public:
  explicit Patience(std::string what);
  ~Patience() { over(); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  /// Removes the line, and shows nothing any more.
  void over();

private:
  void show(const std::string& what);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace paceline::apps
