// The parts that an answer is taken apart into.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace paceline::text {

/// A part of an answer.
struct AnswerPiece {
  enum class Kind {
    content,
    reasoning,
    call,      ///< A call begins; `text` is the function's name.
    arguments, ///< More of the call's arguments, which together are JSON.
    call_end,
  };
  Kind kind = Kind::content;
  std::string text{};
  bool operator==(const AnswerPiece&) const = default;
};

/// A part of a text, by the places of its bytes; empty: there is none.
struct TextSpan {
  std::size_t from = 0;
  std::size_t to = 0; ///< Behind its last byte.
};

/// Appends a piece to others. Neighbours of the same kind become one, unless each is a call.
inline void append(std::vector<AnswerPiece>& to, AnswerPiece piece) {
  using Kind = AnswerPiece::Kind;
  const bool goes_on = piece.kind != Kind::call && piece.kind != Kind::call_end;
  if (goes_on && !to.empty() && to.back().kind == piece.kind)
    to.back().text += piece.text;
  else
    to.push_back(std::move(piece));
}

} // namespace paceline::text
