// The source of a chat's lines, and their assembly to messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps {

struct Typed {
  enum class Kind {
    line,
    pasted, ///< Several lines at once, which are a message whatever it begins with.
    end,
    interrupted,
  };
  Kind kind = Kind::end;
  std::string line; ///< Text without its line end.
};

class LineSource {
public:
  virtual ~LineSource() = default;
  /// Waits for the next line. prompt: shown if a person types.
  virtual Typed next(const std::string& prompt) = 0;
};

/// Makes a source that reads standard input as it is.
std::unique_ptr<LineSource> make_plain_source();

/// Turns what a terminal sent for a paste into the text that was meant: line ends are \n, none
/// stands at the end, and control characters that would be keys are left out.
std::string pasted_text(std::string_view sent);

/// Puts lines together to messages: a line that ends with \ is continued by the next, and lines
/// between two lines of """ belong together.
class MessageReader {
public:
  /// Returns the message if this line completes it.
  std::optional<std::string> feed(const std::string& line);
  bool begun() const { return begun_; }
  /// Returns the unfinished message and begins a new one.
  std::string take();
  void forget();

private:
  std::string text_;
  bool begun_ = false;
  bool quoted_ = false;
  bool has_lines_ = false;
};

} // namespace paceline::apps
