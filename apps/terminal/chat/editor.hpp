// A line editor for chats in a terminal.
#pragma once

#include "apps/terminal/chat/lines.hpp"

#include <memory>
#include <string>

namespace paceline::apps {

struct EditorOptions {
  std::string history; ///< History file; empty: lines are remembered while the program runs only.
  int wake = -1;       ///< File that is readable once Ctrl-C interrupted the typing.
};

/// Makes an editor with libedit's keys, history, and Tab for commands and their arguments. A pasted
/// text becomes part of the line being typed, its line ends included, and Enter sends the whole as
/// one message.
std::unique_ptr<LineSource> make_editor(const EditorOptions& options);

} // namespace paceline::apps
