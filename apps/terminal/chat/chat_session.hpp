// A chat: models, settings, messages and commands.
#pragma once

#include "apps/console/chat/chat_style.hpp"
#include "apps/console/interrupt.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/terminal/chat/answer_parts.hpp"
#include "apps/terminal/chat/chat_tools.hpp"
#include "apps/terminal/chat/command.hpp"
#include "apps/terminal/chat/conversation.hpp"
#include "apps/terminal/chat/typing.hpp"
#include "paceline/engine.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

struct ChatOptions {
  EngineOptions engine;
  Request request; ///< Its prompt is replaced in each turn.
  std::string system;
  ChatTools tools;
  ParserNames parsers;
  std::optional<std::string> question; ///< Question that is answered alone.
  bool color = false;
  bool quiet = false;
  bool whole = false;         ///< Whether standard input is one message.
  bool context_shift = false; ///< Whether a full context lets the oldest messages go.
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
  /// typing: tells the results of calls. All three must outlive it.
  ChatSession(ChatOptions options, Session session, Stopper& stopper, Output& out, Typing& typing);

  /// Checks that the model can have what was asked for. To be called first.
  Result<void> check() const { return check_chat_tools(options_.tools, style_, options_.request); }
  /// Answers, or executes a command. False: it is time to leave.
  Result<bool> take(const ChatCommand& command);
  /// Returns the text that opens a chat in a terminal.
  std::string greeting() const;
  /// Returns a remark if the checkpoint was not made to converse; else empty.
  std::string template_remark() const;
  void remark(const std::string& text) const;
  Result<void> close() { return close_engine(session_->engine); }

private:
  /// A request for the next answer, and what takes that apart.
  struct Next {
    Request request;
    AnswerParts parts;
  };

  /// The conversation as its template writes it.
  struct Rendered {
    std::string text;
    std::vector<TokenId> tokens;
  };

  Result<bool> say(const std::string& text);
  Result<bool> take_turn();
  Result<Rendered> render() const;
  Result<Rendered> shifted(Rendered whole);
  Result<Rendered> render_with_room();
  Result<Next> next_answer();
  Result<Finished> answer(Next& next);
  bool tell_results(const std::vector<Call>& calls);
  void count(const Finished& end);
  bool has_shades() const { return shows_color(output_is_terminal()); }
  Result<void> show_or_change_models(const std::string& names);
  Result<void> set(const ChatCommand& setting);
  Result<void> set_by_name(const std::string& given);
  Result<bool> answer_again(const std::optional<std::string>& text);
  Result<void> save_to(const std::string& name);
  Result<void> load_from(const std::string& name);
  void set_system(const std::string& text);
  Result<void> set_context_shift(const std::string& given);
  void remark_full(const Finished& end) const;
  std::string models() const;
  std::string system_says() const;
  std::string context_shift_says() const;
  std::string statistics() const;
  const Engine& engine() const { return session_->engine; }

  ChatOptions options_;
  std::unique_ptr<Session> session_;
  ChatStyle style_; ///< The target's.
  Stopper& stopper_;
  Output& out_;
  Typing& typing_;
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
