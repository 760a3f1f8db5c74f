// Where a chat's lines come from, and how they become messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps {

struct Typed {
  enum class Kind {
    line,
    pasted, ///< Several lines at once: a message whatever it begins with.
    end,
    interrupted,
  };
  Kind kind = Kind::end;
  std::string line; ///< Without its end.
};

class LineSource {
public:
  virtual ~LineSource() = default;
  /// Waits for the next line. prompt: shown where a person types.
  virtual Typed next(const std::string& prompt) = 0;
};

/// Standard input as it is.
std::unique_ptr<LineSource> make_plain_source();

/// What a terminal sent for a paste, as the text that was meant: line ends are \n, none stands at
/// the end, and control characters that would be keys are left out.
std::string pasted_text(std::string_view sent);

/// Puts lines together: one that ends with \ goes on, and so does what stands between lines of """.
class MessageReader {
public:
  /// The message, when this line completes it.
  std::optional<std::string> feed(const std::string& line);
  bool begun() const { return begun_; }
  /// What has been begun, as it is; nothing is begun any more.
  std::string take();
  void forget();

private:
  std::string text_;
  bool begun_ = false;
  bool quoted_ = false;
  bool has_lines_ = false;
};

} // namespace paceline::apps
