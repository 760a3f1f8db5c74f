// A chat: models, settings, messages and commands.
#pragma once

#include "apps/console/interrupt.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/terminal/chat/command.hpp"
#include "apps/terminal/chat/conversation.hpp"
#include "paceline/engine.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace paceline::apps {

struct ChatOptions {
  EngineOptions engine;
  Request request; ///< Its prompt is replaced in each turn.
  std::string system;
  std::optional<std::string> question; ///< Question that is answered alone.
  bool color = false;
  bool quiet = false;
  bool whole = false; ///< Whether standard input is one message.
  bool no_history = false;
};

/// Decides what Ctrl-C ends: the answer that is being written, or the line being typed.
class Stopper {
public:
  explicit Stopper(Interrupt& interrupt);
  ~Stopper();
  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;

  /// Makes Ctrl-C cancel this stream from now on; null: it ends the line being typed.
  void answering(Stream* stream);
  int wake() const { return pipe_[0]; } ///< Readable after typing was interrupted.
  bool stopped() const;                 ///< Whether an answer was stopped since `answering`.

private:
  void act();

  mutable std::mutex mutex_;
  Stream* stream_ = nullptr;
  bool stopped_ = false;
  int pipe_[2] = {-1, -1};
  Interrupt::Scope scope_;
};

class ChatSession {
public:
  /// out: must outlive it.
  ChatSession(ChatOptions options, Session session, Stopper& stopper, Output& out);

  /// Answers, or executes a command. False: it is time to leave.
  Result<bool> take(const ChatCommand& command);
  /// Returns the text that opens a chat in a terminal.
  std::string greeting() const;
  /// Returns a remark if the checkpoint was not made to converse; else empty.
  std::string template_remark() const;
  void remark(const std::string& text) const;
  Result<void> close() { return close_engine(session_->engine); }

private:
  Result<void> say(const std::string& text);
  Result<Completion> answer(const Request& request);
  Result<Request> next_request() const;
  Result<void> show_or_change_models(const std::string& names);
  Result<void> set(const ChatCommand& setting);
  Result<void> set_by_name(const std::string& given);
  Result<void> answer_again(const std::optional<std::string>& text);
  Result<void> save_to(const std::string& name);
  Result<void> load_from(const std::string& name);
  void set_system(const std::string& text);
  void remark_full(const Finished& end) const;
  std::string models() const;
  std::string system_says() const;
  std::string statistics() const;
  const Engine& engine() const { return session_->engine; }

  ChatOptions options_;
  std::unique_ptr<Session> session_;
  Stopper& stopper_;
  Output& out_;
  Conversation conversation_;

  // These are totals of the whole session.
  int answers_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t decoded_ = 0; ///< Tokens behind each answer's first.
  double seconds_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
};

} // namespace paceline::apps
