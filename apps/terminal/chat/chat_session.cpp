#include "apps/terminal/chat/chat_session.hpp"

#include "apps/console/home.hpp"
#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"
#include "apps/terminal/chat/answer.hpp"
#include "apps/terminal/chat/settings.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

/// An answer takes at most one of so many parts of the context unless told otherwise, so that the
/// chat can go on.
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
  note(dim(for_errors(printable(text)) + "\n", errors_are_terminal()));
}

Result<bool> ChatSession::take(const ChatCommand& command) {
  switch (command.kind) {
  case Kind::say: return say(command.argument).map([] { return true; });
  case Kind::help: note(chat_help(screen_size().columns)); break;
  case Kind::retry: return answer_again({}).map([] { return true; });
  case Kind::edit: return answer_again(command.argument).map([] { return true; });
  case Kind::set: return set_by_name(command.argument).map([] { return true; });
  case Kind::reset:
    conversation_.turns.clear();
    remark("The conversation begins anew.");
    break;
  case Kind::system: set_system(command.argument); break;
  case Kind::model: return show_or_change_models(command.argument).map([] { return true; });
  case Kind::stats: remark(statistics()); break;
  case Kind::save: return save_to(command.argument).map([] { return true; });
  case Kind::load: return load_from(command.argument).map([] { return true; });
  case Kind::quit: return false;
  case Kind::speculation:
  case Kind::window:
  case Kind::verify:
  case Kind::temperature:
  case Kind::number:
  case Kind::seed: return set(command).map([] { return true; });
  }
  return true;
}

Result<void> ChatSession::save_to(const std::string& name) {
  const std::string file = with_home(name);
  return save(conversation_, file).map([&] {
    remark(fmt::format("{} in {}", counted(conversation_.turns.size(), "message"), file));
  });
}

Result<void> ChatSession::load_from(const std::string& name) {
  const std::string file = with_home(name);
  return load(file).map([&](Conversation&& loaded) {
    conversation_ = std::move(loaded);
    remark(fmt::format("{} from {}", counted(conversation_.turns.size(), "message"), file));
  });
}

Result<void> ChatSession::set_by_name(const std::string& given) {
  if (given.empty()) {
    remark(all_settings(options_.request) + ". " + system_says());
    return {};
  }
  return named_setting(given).and_then([&](const ChatCommand& command) -> Result<void> {
    if (command.kind != Kind::system)
      return set(command);
    set_system(command.argument);
    return {};
  });
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
  remark(system_says());
}

std::string ChatSession::system_says() const {
  return conversation_.system.empty() ? "The system says nothing."
                                      : "The system says: " + conversation_.system;
}

/// Makes the request for the next answer. Errors: the template refuses the conversation, or the
/// conversation is too long.
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
    conversation_.turns.pop_back(); // The message counts as not said.
    return said ? Result<void>() : tl::unexpected(said.error());
  }
  conversation_.turns.push_back({"assistant", said->text});
  const Finished& end = said->end;
  ++answers_;
  tokens_ += std::uint64_t(end.usage.completion_tokens);
  decoded_ += std::uint64_t(std::max(end.usage.completion_tokens - 1, 0));
  seconds_ += end.timing.decode_seconds;
  prompt_tokens_ += std::uint64_t(end.usage.prompt_tokens);
  cached_tokens_ += std::uint64_t(end.usage.cached_tokens);
  if (!options_.quiet)
    remark(fmt::format("[{}] {}", to_string(end.reason), answer_figures(end)));
  remark_full(end);
  return {};
}

/// Answers the last message again, or this text in its place. Both stay if there is no other
/// answer.
Result<void> ChatSession::answer_again(const std::optional<std::string>& text) {
  const std::vector<ChatMessage> before = conversation_.turns;
  if (before.size() < 2 || before.back().role != "assistant" || before.end()[-2].role != "user")
    return fail(ErrorCode::invalid_argument, "nothing has been answered yet",
                "say something first");
  conversation_.turns.resize(before.size() - 2);
  auto said = say(text.value_or(before.end()[-2].content));
  if (conversation_.turns.size() < before.size())
    conversation_.turns = before;
  return said;
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
    wanted.target = with_home(names.substr(0, end));
    const std::size_t draft = names.find_first_not_of(" \t", end);
    wanted.drafters = {draft != names.npos ? with_home(names.substr(draft)) : "auto"};
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
  std::vector<std::string> drafts;
  for (const std::string& name : engine().drafters()) // A look-up stands before a model.
    if (name == "suffix" || name == "ngram")
      drafts.push_back("Draft: " + name + " (looked up in the text)");
  if (const auto draft = engine().draft_model())
    drafts.push_back(line("Draft", *draft));
  if (drafts.empty())
    drafts.emplace_back("No draft");
  const std::string no_template = template_remark();
  return fmt::format("{}\n{}{}{}", line("Target", engine().target()), fmt::join(drafts, "\n"),
                     no_template.empty() ? "" : "\n", no_template);
}

std::string ChatSession::template_remark() const {
  return engine().chat_stops().empty()
             ? ""
             : "The checkpoint has no chat template: messages are written as User: and Assistant:, "
               "and answers may not be those of a conversation.";
}

std::string ChatSession::statistics() const {
  const Metrics m = engine().metrics();
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  return fmt::format(
      "{}, {}; {} of {} prompt tokens cached\n"
      "acceptance {:.2f} ({} of {} judged), {:.2f} tokens a round, lookahead hits {:.2f}, overlap "
      "{:.2f}",
      counted(std::uint64_t(answers_), "answer"),
      speed_text(tokens_, share(double(decoded_), seconds_)), cached_tokens_, prompt_tokens_,
      share(double(m.accepted), double(m.judged)), m.accepted, m.judged,
      share(double(m.generated_tokens), double(m.rounds)),
      share(double(m.lookahead_hits + m.fork_hits), double(m.lookahead_rounds)),
      share(m.overlapped_seconds, m.draft_busy_seconds));
}

std::string ChatSession::greeting() const {
  return for_errors(models()) +
         "\n/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves." +
         (options_.color && shows_color(output_is_terminal()) ? "\nShades: " + shade_legend() : "");
}

} // namespace paceline::apps
