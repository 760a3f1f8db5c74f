// What was read of an answer and not handed on yet.
#pragma once

#include "text/answer_piece.hpp"
#include "text/blanks.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text {

/// Collects pieces. Blanks wait for what follows them, since beside a mark they are dropped.
class Pieces {
public:
  using Kind = AnswerPiece::Kind;

  /// at: the byte's place in the text. holds_blanks: a mark may follow.
  void text(Kind kind, char c, std::size_t at, bool holds_blanks) {
    if (holds_blanks && is_blank(c)) {
      blanks_ += c;
      blanks_end_ = at + 1;
      return;
    }
    add_blanks(kind);
    add(kind, std::string_view(&c, 1));
    note(kind, at, at + 1);
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
      add_blanks(kind);
  }
  void drop_blanks() { blanks_.clear(); }
  /// Whether no content was there yet, blanks aside.
  bool only_calls() const { return only_calls_; }
  bool called() const { return called_; }
  std::vector<AnswerPiece> take() {
    told_ = std::exchange(content_, {});
    return std::exchange(pieces_, {});
  }
  /// Returns where the content stood that was taken last.
  TextSpan told() const { return told_; }

private:
  void add_blanks(Kind kind) {
    if (!blanks_.empty())
      note(kind, blanks_end_ - blanks_.size(), blanks_end_);
    add(kind, blanks_);
    blanks_.clear();
  }
  void note(Kind kind, std::size_t from, std::size_t to) {
    if (kind != Kind::content)
      return;
    if (content_.from == content_.to)
      content_.from = from;
    content_.to = to;
  }
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
  std::size_t blanks_end_ = 0; ///< The place behind them in the text.
  TextSpan content_;
  TextSpan told_;
  bool in_call_ = false;
  bool called_ = false;
  bool only_calls_ = true;
};

} // namespace paceline::text
