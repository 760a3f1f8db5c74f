// What was read of an answer and not handed on yet.
#pragma once

#include "text/answer_piece.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text {

inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/// Collects pieces. Blanks wait for what follows them, since beside a mark they are dropped.
class Pieces {
public:
  using Kind = AnswerPiece::Kind;

  /// holds_blanks: a mark may follow.
  void text(Kind kind, char c, bool holds_blanks) {
    if (holds_blanks && is_blank(c)) {
      blanks_ += c;
      return;
    }
    add(kind, blanks_);
    blanks_.clear();
    add(kind, std::string_view(&c, 1));
    only_calls_ = only_calls_ && kind != Kind::content;
  }
  void arguments(std::string_view text) { add(Kind::arguments, text); }
  void begin_call(std::string name) {
    blanks_.clear();
    pieces_.push_back({Kind::call, std::move(name)});
    in_call_ = called_ = true;
  }
  void end_call() {
    if (std::exchange(in_call_, false))
      pieces_.push_back({Kind::call_end, {}});
  }
  /// Ends the text. kind: what blanks at its end are, unless there is nothing but calls before
  /// them.
  void finish(Kind kind) {
    end_call();
    if (!(called_ && only_calls_))
      add(kind, std::exchange(blanks_, {}));
  }
  void drop_blanks() { blanks_.clear(); }
  /// Whether no content was there yet, blanks aside.
  bool only_calls() const { return only_calls_; }
  bool called() const { return called_; }
  std::vector<AnswerPiece> take() { return std::exchange(pieces_, {}); }

private:
  void add(Kind kind, std::string_view text) {
    if (text.empty())
      return;
    if (!pieces_.empty() && pieces_.back().kind == kind)
      pieces_.back().text += text;
    else
      pieces_.push_back({kind, std::string(text)});
  }

  std::vector<AnswerPiece> pieces_;
  std::string blanks_;
  bool in_call_ = false;
  bool called_ = false;
  bool only_calls_ = true;
};

} // namespace paceline::text
