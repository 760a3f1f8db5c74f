// The lines that were typed into chats, in a file that several chats share.
#pragma once

#include <histedit.h>
#include <string>

namespace paceline::apps {

/// The history for libedit's keys. Each line is written to the file as soon as it was typed, behind
/// the lines that other chats have typed meanwhile, so that a chat that ends in any way loses
/// nobody's lines. The file is cut to its newest lines when a chat begins. Only its owner can read
/// it.
class ChatHistory {
public:
  /// file: if it is empty, or holds something else, lines are remembered while the program runs
  /// only.
  explicit ChatHistory(std::string file);
  ~ChatHistory();
  ChatHistory(const ChatHistory&) = delete;
  ChatHistory& operator=(const ChatHistory&) = delete;

  void remember(const std::string& line);
  History* lines() const { return history_; }

private:
  std::string file_;
  History* history_;
};

/// Returns $XDG_STATE_HOME/paceline/chat_history, below ~/.local/state by default, and makes its
/// folder. Empty: there is no home folder.
std::string history_file();

} // namespace paceline::apps
