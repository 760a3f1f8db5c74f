// paceline chat: an interactive session in the terminal, or a conversation through a pipe.
#include "apps/console/command.hpp"
#include "apps/console/input.hpp"
#include "apps/console/options.hpp"
#include "apps/terminal/chat/chat_session.hpp"
#include "apps/terminal/chat/editor.hpp"
#include "apps/terminal/chat/history.hpp"
#include "apps/terminal/chat/typing.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps {
namespace {

/// Executes one command. False: it is time to leave.
Result<bool> take_next(ChatSession& chat, Typing& typing) {
  return typing.command().and_then([&](const std::optional<ChatCommand>& command) {
    return command ? chat.take(*command) : Result<bool>(false);
  });
}

/// Executes commands until the end. Errors are printed and the chat goes on; if the input is a
/// pipe, an error ends it.
Result<int> converse(ChatSession& chat, Typing& typing, const Stopper& stopper, Output& out,
                     bool terminal) {
  for (bool more = true; more && out.open();) {
    const auto taken = take_next(chat, typing);
    if (!taken && !terminal)
      return tl::unexpected(taken.error());
    if (!taken)
      print_error(taken.error());
    if (!terminal && stopper.stopped())
      return status_interrupted;
    more = taken.value_or(true);
  }
  return out.finish().map([] { return status_ok; });
}

/// Says one message and writes the answer.
Result<int> answer_once(ChatSession& chat, const std::string& text, const Stopper& stopper,
                        const Output& out) {
  if (const auto said = chat.take({ChatCommand::Kind::say, text}); !said)
    return tl::unexpected(said.error());
  if (stopper.stopped())
    return status_interrupted;
  return out.finish().map([] { return status_ok; });
}

/// Returns the only message to be answered; none: the chat goes on.
Result<std::optional<std::string>> only_message(const ChatOptions& options) {
  if (options.whole && options.question)
    return fail(ErrorCode::invalid_argument, "--whole stands beside a question",
                "give one of them");
  if (!options.whole)
    return options.question;
  return read_text({}).map([](std::string&& text) { return std::optional(std::move(text)); });
}

Result<int> run(ChatOptions options, Interrupt& interrupt) {
  // The mode and the window are set in the requests, where /speculation and /window change them. An
  // engine would not load the draft for "off".
  options.request.speculation =
      std::exchange(options.engine.speculation, SpeculationMode::automatic);
  options.request.window = std::exchange(options.engine.window, std::nullopt);
  const auto once = only_message(options);
  if (!once)
    return tl::unexpected(once.error());
  auto session = open_session(options.engine, SimulatedTime::real_clock);
  if (!session)
    return tl::unexpected(session.error());
  const bool typed = input_is_terminal() && output_is_terminal();
  const bool terminal = typed && !*once;
  Output out;
  Stopper stopper(interrupt);
  const EditorOptions editor{options.no_history ? std::string() : history_file(), stopper.wake()};
  const bool quiet = options.quiet;
  Typing typing(typed ? make_editor(editor) : make_plain_source());
  ChatSession chat(std::move(options), std::move(*session), stopper, out, typing);
  if (auto fits = chat.check(); !fits)
    return tl::unexpected(fits.error());
  if (terminal)
    note(chat.greeting() + "\n");
  else if (!quiet && !chat.template_remark().empty())
    chat.remark(chat.template_remark());
  auto status = *once ? answer_once(chat, **once, stopper, out)
                      : converse(chat, typing, stopper, out, terminal);
  if (terminal)
    note("\n");
  return status.and_then([&](int given) { return chat.close().map([given] { return given; }); });
}

/// Takes the words without an option: a model, unless -m names one, and a question.
void take_words(std::vector<std::string> words, bool model_named, ChatOptions& options) {
  if (!model_named) {
    options.engine.target = std::move(words.front());
    words.erase(words.begin());
  }
  if (words.size() > 1)
    throw CLI::ValidationError("--model",
                               "names a model, and so does " + words.front() + ": name it once");
  if (!words.empty())
    options.question = std::move(words.front());
}

void add_tools_option(CLI::App& app, ChatTools& tools) {
  const auto read = [&tools](const std::string& file) {
    auto given = read_chat_tools(file);
    if (!given)
      throw CLI::ValidationError("--tools", given.error().text());
    tools = std::move(*given);
  };
  app.add_option_function<std::string>("--tools", read,
                                       "Functions that the model may call, and you answer for: "
                                       "JSON as OpenAI's API takes them")
      ->type_name("FILE");
}

/// Adds the words. To be added before the options that depend on the model.
void add_words(CLI::App& app, ChatOptions& options) {
  app.add_option_function<std::vector<std::string>>(
         "words", // Newer CLI11 takes no "model" beside --model.
         [&app, &options](const std::vector<std::string>& words) {
           take_words(words, app.count("--model") > 0, options);
         },
         "The model (or -m), and a question, which alone is answered")
      ->expected(0, 2)
      ->type_name("MODEL");
}

constexpr const char* footer = R"(Examples:
  paceline chat
  paceline chat --color --temperature 0
  paceline chat demo "def fibonacci(n):"
  echo "def fibonacci(n):" | paceline chat -n 64
  cat question.txt | paceline chat --whole
  paceline chat org/name --tools tools.json

/help lists what can be typed. Through a pipe each line is a message (--whole: all of it is one),
answers go to standard output and figures to standard error. docs/terminal.md explains the rest.)";

} // namespace

Command add_chat(CLI::App& program) {
  auto* app = program.add_subcommand("chat", "Converse in the terminal");
  auto options = std::make_shared<ChatOptions>();
  add_words(*app, *options);
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->request);
  add_sampling_options(*app, options->request);
  app->option_defaults()->group("Conversation");
  app->add_option("--system", options->system, "What the system says before the conversation")
      ->type_name("TEXT");
  add_tools_option(*app, options->tools);
  add_parser_options(*app, options->parsers);
  app->add_flag("--color", options->color,
                "Shade accepted draft tokens, the target's own, and lookahead that came true");
  app->add_flag("-q,--quiet", options->quiet, "No figures");
  app->add_flag("--whole", options->whole, "All of standard input is one message");
  app->add_flag("--context-shift", options->context_shift,
                "Where the context is full let the oldest messages go, and say so");
  app->add_flag("--no-history", options->no_history, "Remember no lines beyond this session");
  add_trace_option(*app, options->engine);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
