// What was typed into chats, remembered in a file that several of them share.
#pragma once

#include <histedit.h>
#include <string>

namespace paceline::apps {

/// Lines for libedit's keys. Each is in the file as soon as it was typed, behind those that other
/// chats have typed meanwhile: however a chat ends, it takes nobody's lines along. The file is cut
/// to its newest lines when a chat begins. It is readable by its owner alone.
class ChatHistory {
public:
  /// file: empty, or one that holds something else: lines are remembered while the program runs
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

/// $XDG_STATE_HOME/paceline/chat_history, below ~/.local/state by default; its folder is made.
/// Empty: there is no home.
std::string history_file();

} // namespace paceline::apps
