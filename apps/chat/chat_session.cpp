#include "apps/chat/chat_session.hpp"

#include "apps/chat/answer.hpp"
#include "apps/chat/settings.hpp"
#include "apps/output.hpp"
#include "apps/screen_text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

/// An answer takes at most this part of the context unless told otherwise, so that talk can go on.
constexpr int context_parts = 4;

Error with_hint(Error error, const char* hint) {
  error.hint = error.hint.empty() ? hint : error.hint + "; " + hint;
  return error;
}

} // namespace

ChatSession::ChatSession(ChatOptions options, Session session, Stopper& stopper, Output& out)
    : options_(std::move(options)), session_(std::make_unique<Session>(std::move(session))),
      stopper_(stopper), out_(out) {
  conversation_.system = options_.system;
}

void ChatSession::remark(const std::string& text) const {
  note(dim(printable(text) + "\n", errors_are_terminal()));
}

Result<bool> ChatSession::take(const ChatCommand& command) {
  switch (command.kind) {
  case Kind::say: return say(command.argument).map([] { return true; });
  case Kind::help: note(chat_help()); break;
  case Kind::reset:
    conversation_.turns.clear();
    remark("The conversation begins anew.");
    break;
  case Kind::system: set_system(command.argument); break;
  case Kind::model: return show_or_change_models(command.argument).map([] { return true; });
  case Kind::stats: remark(statistics()); break;
  case Kind::save:
    return save(conversation_, command.argument).map([&] {
      remark(fmt::format("{} messages in {}", conversation_.turns.size(), command.argument));
      return true;
    });
  case Kind::load:
    return load(command.argument).map([&](Conversation&& loaded) {
      conversation_ = std::move(loaded);
      remark(fmt::format("{} messages from {}", conversation_.turns.size(), command.argument));
      return true;
    });
  case Kind::quit: return false;
  case Kind::speculation:
  case Kind::window:
  case Kind::verify:
  case Kind::temperature:
  case Kind::seed: return set(command).map([] { return true; });
  }
  return true;
}

Result<void> ChatSession::set(const ChatCommand& command) {
  Request changed = options_.request;
  auto now = apply_setting(command, changed);
  if (!now)
    return tl::unexpected(now.error());
  const auto mode = changed.speculation.value_or(SpeculationMode::automatic);
  if ((mode == SpeculationMode::sync || mode == SpeculationMode::overlap) &&
      engine().drafters().empty())
    return fail(ErrorCode::invalid_argument, "there is no draft to speculate with",
                "/model DIR DRAFT changes to a pair, /model DIR suffix to drafts looked up in the "
                "text");
  options_.request = std::move(changed);
  remark(*now);
  return {};
}

void ChatSession::set_system(const std::string& text) {
  if (!text.empty())
    conversation_.system = text == "none" ? std::string() : text;
  remark(conversation_.system.empty() ? "The system says nothing."
                                      : "The system says: " + conversation_.system);
}

/// A template that refuses the conversation, or a conversation that is too long, is an error.
Result<Request> ChatSession::next_request() const {
  Request request = options_.request;
  auto prompt = engine().chat_tokens(conversation_.messages());
  if (!prompt)
    return tl::unexpected(prompt.error());
  request.prompt_tokens = std::move(*prompt);
  const int context = engine().target().max_model_len;
  if (int(request.prompt_tokens.size()) >= context)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the conversation has {} tokens, and the model's context {}",
                            request.prompt_tokens.size(), context),
                "/reset begins anew");
  const auto stops = engine().chat_stops();
  request.stop.insert(request.stop.end(), stops.begin(), stops.end());
  if (!request.max_tokens)
    request.max_tokens = std::max(context / context_parts, 1);
  return request;
}

Result<void> ChatSession::say(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return {};
  conversation_.turns.push_back({"user", text});
  auto said = next_request().and_then([&](const Request& request) { return answer(request); });
  if (!said || (said->text.empty() && said->end.reason == FinishReason::cancelled)) {
    conversation_.turns.pop_back(); // as if it had not been said
    return said ? Result<void>() : tl::unexpected(said.error());
  }
  conversation_.turns.push_back({"assistant", said->text});
  const Finished& end = said->end;
  ++answers_;
  tokens_ += std::uint64_t(end.usage.completion_tokens);
  seconds_ += end.timing.decode_seconds;
  prompt_tokens_ += std::uint64_t(end.usage.prompt_tokens);
  cached_tokens_ += std::uint64_t(end.usage.cached_tokens);
  if (!options_.quiet)
    remark(fmt::format("[{}] {}", to_string(end.reason), answer_figures(end)));
  remark_full(end);
  return {};
}

void ChatSession::remark_full(const Finished& end) const {
  const int context = engine().target().max_model_len;
  if (end.reason == FinishReason::length &&
      end.usage.prompt_tokens + end.usage.completion_tokens >= context)
    remark(fmt::format("The context of {} tokens is full, so the answer ends here: /reset begins "
                       "anew, /save FILE keeps what was said.",
                       context));
}

Result<Completion> ChatSession::answer(const Request& request) {
  auto stream = session_->engine.submit(request);
  if (!stream)
    return tl::unexpected(stream.error());
  const bool terminal = output_is_terminal();
  const AnswerLook look{terminal, options_.color && shows_color(terminal),
                        moves_cursor(terminal) && !options_.quiet};
  AnswerView view(out_, engine(), look);
  stopper_.answering(&*stream);
  const HiddenTyping hidden;
  Patience waiting(fmt::format("Reading {} tokens", request.prompt_tokens.size()));
  auto answer = follow(*stream, [&](const Delta& delta) {
    waiting.over();
    view.show(delta);
    if (!out_.open())
      stream->cancel();
  });
  stopper_.answering(nullptr);
  waiting.over();
  view.finish();
  return answer;
}

Result<void> ChatSession::show_or_change_models(const std::string& names) {
  if (!names.empty()) {
    EngineOptions wanted = options_.engine;
    const std::size_t end = std::min(names.find_first_of(" \t"), names.size());
    wanted.target = names.substr(0, end);
    const std::size_t draft = names.find_first_not_of(" \t", end);
    wanted.drafters = {draft != names.npos ? names.substr(draft) : "auto"};
    auto opened = open_session(wanted, SimulatedTime::real_clock);
    if (!opened)
      return tl::unexpected(with_hint(opened.error(), "the models stay as they were"));
    options_.engine = std::move(wanted);
    const auto closed = close();
    *session_ = std::move(*opened);
    if (!closed)
      return closed;
  }
  remark(models());
  return {};
}

std::string ChatSession::models() const {
  const auto line = [](const char* role, const ModelInfo& model) {
    return fmt::format("{}: {} ({}, {} on {})", role, model.name, model.architecture,
                       formats_text(model), model.device);
  };
  const auto draft = engine().draft_model();
  return line("Target", engine().target()) + "\n" +
         (draft ? line("Draft", *draft) : std::string("No draft"));
}

std::string ChatSession::statistics() const {
  const Metrics m = engine().metrics();
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  return fmt::format(
      "{} answer{}, {} tokens, {:.0f} tokens/s; {} of {} prompt tokens cached\n"
      "acceptance {:.2f} ({} of {} judged), {:.2f} tokens a round, lookahead hits {:.2f}, overlap "
      "{:.2f}",
      answers_, answers_ == 1 ? "" : "s", tokens_, share(double(tokens_), seconds_), cached_tokens_,
      prompt_tokens_, share(double(m.accepted), double(m.judged)), m.accepted, m.judged,
      share(double(m.generated_tokens), double(m.rounds)),
      share(double(m.lookahead_hits + m.fork_hits), double(m.lookahead_rounds)),
      share(m.overlapped_seconds, m.draft_busy_seconds));
}

std::string ChatSession::greeting() const {
  return models() + "\n/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves." +
         (options_.color && shows_color(output_is_terminal()) ? "\nShades: " + shade_legend() : "");
}

} // namespace paceline::apps
