// One answer as it is written: safe for the terminal, shaded, with figures below.
#pragma once

#include "apps/console/terminal.hpp"
#include "apps/terminal/chat/answer_parts.hpp"
#include "apps/terminal/chat/shade.hpp"
#include "apps/terminal/chat/status_line.hpp"
#include "apps/terminal/chat/word_wrap.hpp"
#include "paceline/engine.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace paceline::apps {

/// The look of an answer on standard output.
struct AnswerLook {
  bool safe = false;    ///< Whether characters are made safe, since standard output is a terminal.
  bool shaded = false;  ///< Whether tokens have the shades of their sources.
  bool special = false; ///< Whether the text has special tokens, which only its parts lack.
  bool status = false;  ///< Whether a line of figures stands below while it comes.
};

class AnswerView {
public:
  /// parts: take the answer apart; like the others, they must outlive this.
  AnswerView(Output& out, const Engine& engine, AnswerParts& parts, AnswerLook look);
  void show(const Delta& delta);
  /// Shows what is left of the text, removes the status and ends the line.
  void finish();

private:
  std::vector<AnswerParts::Shown> parts_of(const Delta& delta);
  std::string written(const std::vector<AnswerParts::Shown>& parts, int columns);
  std::string figures() const;
  void refresh();
  bool has_room(const ScreenSize& size);

  Output& out_;
  const Engine& engine_;
  AnswerParts& parts_;
  AnswerLook look_;
  Metrics before_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point next_;
  std::size_t tokens_ = 0;
  Shader shader_;
  WordWrap wrap_;
  StatusLine status_;
  ScreenSize size_;
  std::chrono::steady_clock::time_point steady_; ///< The size counts as steady from then on.
};

/// Returns "48 tokens, 312 tokens/s, acceptance 0.61, overlap 0.93, 32 of 57 prompt tokens cached".
std::string answer_figures(const Finished& end);

} // namespace paceline::apps
