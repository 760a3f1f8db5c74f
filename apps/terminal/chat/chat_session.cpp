#include "apps/terminal/chat/chat_session.hpp"

#include "apps/console/home.hpp"
#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"
#include "apps/terminal/chat/settings.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

constexpr const char* models_stay = "the models stay as they were";

Error with_hint(Error error, const char* hint) {
  error.hint = error.hint.empty() ? hint : error.hint + "; " + hint;
  return error;
}

} // namespace

ChatSession::ChatSession(ChatOptions options, Session session, Stopper& stopper, Output& out,
                         Typing& typing)
    : options_(std::move(options)), session_(std::make_unique<Session>(std::move(session))),
      style_(style_of(engine(), options_.parsers)), stopper_(stopper), out_(out), typing_(typing) {
  conversation_.system = options_.system;
}

void ChatSession::remark(const std::string& text) const {
  note(dim(for_errors(printable(text)) + "\n", errors_are_terminal()));
}

Result<bool> ChatSession::take(const ChatCommand& command) {
  switch (command.kind) {
  case Kind::say: return say(command.argument).map([](bool) { return true; });
  case Kind::help: note(chat_help(screen_size().columns)); break;
  case Kind::retry: return answer_again({}).map([](bool) { return true; });
  case Kind::edit: return answer_again(command.argument).map([](bool) { return true; });
  case Kind::set: return set_by_name(command.argument).map([] { return true; });
  case Kind::reset:
    conversation_.turns.clear();
    conversation_.first_read = 0;
    remark("The conversation begins anew.");
    break;
  case Kind::system: set_system(command.argument); break;
  case Kind::context_shift: return set_context_shift(command.argument).map([] { return true; });
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
    remark(fmt::format("{}, {}. {}", all_settings(options_.request), context_shift_says(),
                       system_says()));
    return {};
  }
  return named_setting(given).and_then(
      [&](const ChatCommand& command) { return take(command).map([](bool) {}); });
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

Result<void> ChatSession::set_context_shift(const std::string& given) {
  if (!given.empty() && given != "on" && given != "off")
    return fail(ErrorCode::invalid_argument, fmt::format("/context-shift cannot be '{}'", given),
                "give on or off");
  if (!given.empty())
    options_.context_shift = given == "on";
  remark(context_shift_says());
  return {};
}

std::string ChatSession::context_shift_says() const {
  return options_.context_shift ? "context-shift on" : "context-shift off";
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
      return tl::unexpected(with_hint(opened.error(), models_stay));
    ChatStyle style = style_of(opened->engine, options_.parsers);
    if (const auto fits = check_chat_tools(options_.tools, style, options_.request); !fits)
      return tl::unexpected(with_hint(fits.error(), models_stay));
    options_.engine = std::move(wanted);
    style_ = style;
    auto closed = close();
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
         (options_.color && has_shades() ? "\nShades: " + shade_legend() : "");
}

} // namespace paceline::apps
