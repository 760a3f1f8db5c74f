// paceline generate: one completion.
#include "apps/console/command.hpp"
#include "apps/console/input.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/validators.hpp"
#include "sampling/fields.hpp"

#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <functional>
#include <memory>

namespace paceline::apps {
namespace {

struct Options {
  EngineOptions engine;
  Request request;
  PromptSource prompt;
  bool json = false;
  bool quiet = false;
  bool echo = false;
};

/// A completion and the time it took.
struct Outcome {
  Completion answer;
  double load_seconds = 0;
  bool simulated = false;
};

boost::json::object token_json(const Engine& engine, TokenId token, float logprob) {
  boost::json::array bytes;
  for (const char c : engine.token_bytes(token, false))
    bytes.emplace_back(int(static_cast<unsigned char>(c)));
  return {{"token", token},
          {"piece", engine.token_name(token)},
          {"bytes", std::move(bytes)},
          {"logprob", logprob}};
}

boost::json::object logprob_json(const Engine& engine, const TokenLogprob& token) {
  boost::json::array top;
  for (const auto& [id, logprob] : token.top)
    top.push_back(token_json(engine, id, logprob));
  boost::json::object object = token_json(engine, token.token, token.logprob);
  object["top"] = std::move(top);
  return object;
}

boost::json::object timing_json(const Outcome& outcome) {
  const Timing& timing = outcome.answer.end.timing;
  return {{"load_seconds", outcome.load_seconds},
          {"time_to_first_token_seconds", timing.time_to_first_token_seconds},
          {"decode_seconds", timing.decode_seconds},
          {"total_seconds", timing.total_seconds},
          {"tokens_per_second", decode_rate(outcome.answer.end)},
          {"simulated", outcome.simulated}};
}

boost::json::object answer_json(const Engine& engine, const Options& options,
                                const Outcome& outcome) {
  const Completion& answer = outcome.answer;
  boost::json::object object{
      {"text", answer.text},
      {"tokens", ids_json(answer.tokens)},
      {"finish_reason", to_string(answer.end.reason)},
      {"seed", answer.end.seed},
      {"usage", usage_json(answer.end.usage)},
      {"speculation", speculation_json(answer.end.speculation, answer.end.usage.completion_tokens)},
      {"timing", timing_json(outcome)},
      {"reproducible", answer.end.reproducible}};
  if (options.request.logprobs) {
    auto& logprobs = object["logprobs"].emplace_array();
    for (const TokenLogprob& token : answer.logprobs)
      logprobs.push_back(logprob_json(engine, token));
  }
  return object;
}

/// Returns the seed that repeats the output.
std::string seed_text(const Finished& end) {
  return fmt::format("; seed {}{}", end.seed,
                     end.reproducible ? "" : ", not repeatable (--verify coupled is)");
}

std::string speculation_line(const Finished& end) {
  const SpeculationStats& s = end.speculation;
  if (s.rounds == 0 || s.drafted == 0)
    return fmt::format("{}, {}", to_string(s.mode), to_string(s.verify)) + seed_text(end);
  std::string line = fmt::format("{}, {}: acceptance {:.2f}, {:.2f} tokens a round",
                                 to_string(s.mode), to_string(s.verify), s.acceptance_rate(),
                                 tokens_per_round(s, end.usage.completion_tokens));
  if (s.lookahead_rounds > 0)
    line += fmt::format(", lookahead hits {:.2f}", s.lookahead_hit_rate());
  return line + seed_text(end);
}

std::string statistics(const Outcome& outcome) {
  const Finished& end = outcome.answer.end;
  std::string left_out;
  if (const int context = end.speculation.draft_context_exceeded)
    left_out = fmt::format("; the draft was left out beyond its {} tokens", context);
  return fmt::format(
      "[{}] {}{}, first after {:.0f} ms (loading {:.2f} s)\n[{}{}]\n", to_string(end.reason),
      speed_text(std::uint64_t(end.usage.completion_tokens), decode_rate(end)),
      outcome.simulated ? " simulated" : "", 1e3 * end.timing.time_to_first_token_seconds,
      outcome.load_seconds, speculation_line(end), left_out);
}

/// Follows the request to its end, and streams its text to standard output. If nobody reads any
/// more, the request is cancelled.
Result<Completion> stream_text(Stream& stream, const std::string& before,
                               const std::function<void()>& check_interrupt) {
  Output out;
  const bool terminal = output_is_terminal();
  const auto show = [&](std::string_view text) {
    if (!out.write(terminal ? printable(text) : std::string(text)))
      stream.cancel();
  };
  show(before);
  Patience waiting("Reading the prompt");
  auto answer = follow(stream, [&](const Delta& delta) {
    waiting.over();
    show(delta.text);
    check_interrupt();
  });
  waiting.over();
  if (answer)
    show("\n");
  if (const auto written = out.finish(); !written)
    return tl::unexpected(written.error());
  return answer;
}

Result<Completion> complete(Engine& engine, const Options& options, Interrupt& interrupt) {
  auto stream = engine.submit(options.request);
  if (!stream)
    return tl::unexpected(stream.error());
  // The engine works on this thread in virtual time, and can be told only between events.
  const bool real_time = !simulated(options.engine);
  const auto scope = interrupt.on_first([&] {
    if (real_time)
      stream->cancel();
  });
  const auto check_interrupt = [&] {
    if (interrupt.seen())
      stream->cancel();
  };
  if (options.json)
    return follow(*stream, [&](const Delta&) { check_interrupt(); });
  return stream_text(*stream, options.echo ? options.request.prompt : "", check_interrupt);
}

Result<int> report(const Engine& engine, const Options& options, const Outcome& outcome,
                   bool interrupted) {
  if (options.json) {
    if (auto printed = print_json(answer_json(engine, options, outcome)); !printed)
      return printed;
  } else if (!options.quiet) {
    note(dim(for_errors(statistics(outcome)), errors_are_terminal()));
  }
  return interrupted ? status_interrupted : status_ok;
}

Result<int> run(Options options, Interrupt& interrupt) {
  auto prompt = read_text(options.prompt);
  if (!prompt)
    return tl::unexpected(prompt.error());
  options.request.prompt = std::move(*prompt);
  options.request.parse_special_tokens = true; // Whoever types special tokens knows them.
  auto session = open_session(options.engine);
  if (!session)
    return tl::unexpected(session.error());
  auto answer = complete(session->engine, options, interrupt);
  if (!answer)
    return tl::unexpected(answer.error());
  const Outcome outcome{std::move(*answer), session->load_seconds, simulated(options.engine)};
  return report(session->engine, options, outcome, interrupt.seen()).and_then([&](int status) {
    return close_engine(session->engine).map([status] { return status; });
  });
}

void add_logprob_options(CLI::App& app, Request& request, CLI::Option* json) {
  const auto set = [&request](int count) {
    request.logprobs = true;
    request.top_logprobs = count;
  };
  const auto& likeliest = sampling::request_number("top_logprobs");
  app.add_option_function<int>(std::string(likeliest.options), set, std::string(likeliest.effect))
      ->check(within(likeliest.range))
      ->type_name("N")
      ->needs(json);
  add_choice(app, "--logprobs-mode", request.logprobs_mode, choices_of<LogprobsMode>(),
             "Of the model, or of what temperature and the like made of it");
}

constexpr const char* footer = R"(Examples:
  paceline generate "def fibonacci(n):" -n 64
  paceline generate -f module.py --temperature 0 --speculation overlap --json
  git diff | paceline generate --quiet -n 200 --stop "diff --git"

The text goes to standard output as it comes, statistics to standard error. An empty
prompt starts a new text. Ctrl-C keeps the text so far and shows the statistics.)";

} // namespace

Command add_generate(CLI::App& program) {
  auto* app = program.add_subcommand("generate", "Complete a prompt");
  auto options = std::make_shared<Options>();
  add_prompt_options(*app, options->prompt, "prompt");
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->request);
  add_sampling_options(*app, options->request);
  add_trace_option(*app, options->engine);
  auto* json = add_json_option(*app, options->json);
  add_logprob_options(*app, options->request, json);
  app->add_flag("-q,--quiet", options->quiet, "No statistics");
  app->add_flag("--echo", options->echo, "Print the prompt before its completion");
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
