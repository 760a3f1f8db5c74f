// A line editor for chats in a terminal.
#pragma once

#include "apps/terminal/chat/lines.hpp"

#include <memory>
#include <string>

namespace paceline::apps {

struct EditorOptions {
  std::string history; ///< File; empty: lines are remembered while the program runs only.
  int wake = -1;       ///< A file that is readable once typing was interrupted by Ctrl-C.
};

/// With libedit's keys, history, and Tab for commands and what they take. What is pasted becomes
/// part of the line being typed, its line ends included, and is sent by Enter as one message.
std::unique_ptr<LineSource> make_editor(const EditorOptions& options);

} // namespace paceline::apps
