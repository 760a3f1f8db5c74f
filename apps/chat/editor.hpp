// Where a chat's lines come from: a line editor in a terminal, else standard input as it is.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace paceline::apps {

struct Typed {
  enum class Kind { line, end, interrupted };
  Kind kind = Kind::end;
  std::string line; ///< Without its end.
};

class LineSource {
public:
  virtual ~LineSource() = default;
  /// Waits for the next line. prompt: shown where a person types.
  virtual Typed next(const std::string& prompt) = 0;
};

struct EditorOptions {
  std::string history; ///< File; empty: lines are remembered while the program runs only.
  int wake = -1;       ///< A file that is readable once typing was interrupted by Ctrl-C.
};

/// With libedit's keys, history, and Tab for commands; for terminals.
std::unique_ptr<LineSource> make_editor(const EditorOptions& options);
std::unique_ptr<LineSource> make_plain_source();

/// $XDG_STATE_HOME/paceline/chat_history, below ~/.local/state by default; its folder is made.
/// Empty: there is no home.
std::string history_file();

/// Puts lines together: one that ends with \ goes on, and so does what stands between lines of """.
class MessageReader {
public:
  /// The message, when this line completes it.
  std::optional<std::string> feed(const std::string& line);
  bool begun() const { return begun_; }
  void forget();

private:
  std::string text_;
  bool begun_ = false;
  bool quoted_ = false;
  bool has_lines_ = false;
};

} // namespace paceline::apps
