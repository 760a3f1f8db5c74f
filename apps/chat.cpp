// paceline chat: an interactive session in the terminal, or a conversation through a pipe.
#include "apps/chat/chat_session.hpp"
#include "apps/chat/editor.hpp"
#include "apps/command.hpp"
#include "apps/field_names.hpp"
#include "apps/input.hpp"
#include "apps/options.hpp"

#include <memory>
#include <utility>

namespace paceline::apps {
namespace {

/// A line of its own on standard error; the chat goes on.
void complain(const Error& error) {
  note("paceline: " + with_options(error).text() + "\n");
}

/// The next command, put together from lines; none: the chat is over.
class Reader {
public:
  explicit Reader(std::unique_ptr<LineSource> source) : source_(std::move(source)) {}

  std::optional<ChatCommand> next() {
    for (;;) {
      Typed typed = source_->next(message_.begun() ? ". " : "> ");
      if (typed.kind == Typed::Kind::end)
        return {};
      if (typed.kind == Typed::Kind::interrupted) {
        message_.forget();
        continue;
      }
      const bool first = !message_.begun();
      auto whole = message_.feed(typed.line);
      if (!whole)
        continue;
      const bool several = !first || typed.kind == Typed::Kind::pasted;
      if (several || typed.line.empty()) // several lines are said, whatever they begin with
        return ChatCommand{ChatCommand::Kind::say, *std::move(whole)};
      auto command = parse_chat_line(*whole);
      if (command)
        return *std::move(command);
      complain(command.error());
    }
  }

private:
  std::unique_ptr<LineSource> source_;
  MessageReader message_;
};

/// Errors of a turn are told and the chat goes on; through a pipe nobody could go on.
Result<int> converse(ChatSession& chat, Reader& reader, const Stopper& stopper, Output& out,
                     bool terminal) {
  while (const auto command = reader.next()) {
    auto more = chat.take(*command);
    if (!more && !terminal)
      return tl::unexpected(more.error());
    if (!more)
      complain(more.error());
    if (!terminal && stopper.stopped())
      return status_interrupted;
    if ((more && !*more) || !out.open())
      break;
  }
  return out.finish().map([] { return status_ok; });
}

/// Standard input is one message.
Result<int> answer_whole_input(ChatSession& chat, const Stopper& stopper, const Output& out) {
  const auto said = read_text({}).and_then([&](std::string&& text) {
    return chat.take({ChatCommand::Kind::say, std::move(text)});
  });
  if (!said)
    return tl::unexpected(said.error());
  if (stopper.stopped())
    return status_interrupted;
  return out.finish().map([] { return status_ok; });
}

Result<int> run(ChatOptions options, Interrupt& interrupt) {
  // Of the requests, which /speculation and /window change. An engine would not load the draft for
  // "off".
  options.request.speculation =
      std::exchange(options.engine.speculation, SpeculationMode::automatic);
  options.request.window = std::exchange(options.engine.window, std::nullopt);
  auto session = open_session(options.engine, SimulatedTime::real_clock);
  if (!session)
    return tl::unexpected(session.error());
  const bool terminal = !options.whole && input_is_terminal() && output_is_terminal();
  Output out;
  Stopper stopper(interrupt);
  const EditorOptions editor{options.no_history ? std::string() : history_file(), stopper.wake()};
  const bool whole = options.whole;
  ChatSession chat(std::move(options), std::move(*session), stopper, out);
  if (terminal)
    note(chat.greeting() + "\n");
  Reader reader(terminal ? make_editor(editor) : make_plain_source());
  auto status = whole ? answer_whole_input(chat, stopper, out)
                      : converse(chat, reader, stopper, out, terminal);
  if (terminal)
    note("\n");
  return status.and_then([&](int given) { return chat.close().map([given] { return given; }); });
}

constexpr const char* footer = R"(Examples:
  paceline chat
  paceline chat --color --temperature 0
  echo "def fibonacci(n):" | paceline chat -n 64
  cat question.txt | paceline chat --whole

/help lists what can be typed. Through a pipe each line is a message (--whole: all of it is one),
answers go to standard output and figures to standard error. docs/terminal.md explains the rest.)";

} // namespace

Command add_chat(CLI::App& program) {
  auto* app = program.add_subcommand("chat", "Converse in the terminal");
  auto options = std::make_shared<ChatOptions>();
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->request);
  add_sampling_options(*app, options->request);
  app->option_defaults()->group("Conversation");
  app->add_option("--system", options->system, "What the system says before the conversation")
      ->type_name("TEXT");
  app->add_flag("--color", options->color,
                "Shade accepted draft tokens, the target's own, and lookahead that came true");
  app->add_flag("-q,--quiet", options->quiet, "No figures");
  app->add_flag("--whole", options->whole, "All of standard input is one message");
  app->add_flag("--no-history", options->no_history, "Remember no lines beyond this session");
  add_trace_option(*app, options->engine);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
