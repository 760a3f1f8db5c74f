// Standard output and standard error as a polite program uses them.
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
/// pipe) is no error, only a reason to stop; anything else, such as a full disk, is one.
class Output {
public:
  /// False once nothing can be written any more.
  bool write(std::string_view text);
  bool open() const { return error_number_ == 0; }
  /// An error unless all was written or the reader went away.
  Result<void> finish() const;

private:
  int error_number_ = 0;
};

/// A remark on standard error, which is never worth failing for. Adds no newline.
void note(std::string_view text);

bool output_is_terminal();
bool errors_are_terminal();
bool input_is_terminal();

/// A terminal that can go back over what it shows: TERM is set, and not "dumb".
bool moves_cursor(bool terminal);
/// One that does, and NO_COLOR is not set.
bool shows_color(bool terminal);

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};
/// Of the terminal at standard output; where that is none, the usual size.
ScreenSize screen_size();

/// While it lives, a terminal at standard input does not show what is typed, which would land in
/// the midst of what the program writes. Whoever reads next gets it, unless Ctrl-C came behind it.
class HiddenTyping {
public:
  HiddenTyping();
  ~HiddenTyping();
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

private:
  std::optional<termios> before_; ///< None: it is no terminal.
};

/// Dim or bold where standard output (or standard error) is a terminal that shows color.
std::string dim(std::string_view text, bool terminal);
std::string bold(std::string_view text, bool terminal);

/// One line on standard error that is rewritten in place while something takes longer than
/// a moment, and leaves nothing behind. Silent unless standard error is a terminal.
class ProgressLine {
public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// done: 0 to 1.
  void show(std::string_view what, double done);
  void clear();

private:
  std::chrono::steady_clock::time_point next_;
  bool enabled_;
  bool shown_ = false;
};

/// A line like it that says how long something has taken, where nobody knows how far it is: from a
/// moment after its construction until `over`. It has a thread of its own.
class Patience {
public:
  explicit Patience(std::string what);
  ~Patience() { over(); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  /// Takes the line away; nothing is shown any more.
  void over();

private:
  void show(const std::string& what);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace paceline::apps
