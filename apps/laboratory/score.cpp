// paceline score: how likely a text is to a model.
#include "apps/console/command.hpp"
#include "apps/console/input.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/laboratory/score/comparison_report.hpp"
#include "apps/laboratory/score/windows.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <vector>

namespace paceline::apps {
namespace {

struct Options {
  EngineOptions engine;
  std::string file;
  std::vector<WeightFormat> compared; ///< Empty: the text is scored.
  std::string draft = "auto";         ///< Draft of a comparison.
  bool json = false;
};

struct Scores {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs; ///< One for tokens[1], tokens[2], ...: nothing precedes the first.

  double perplexity() const {
    double sum = 0;
    for (const float logprob : logprobs)
      sum += logprob;
    return std::exp(-sum / double(logprobs.size()));
  }
};

Result<PromptLogprobs> score_window(Engine& engine, std::vector<TokenId> tokens) {
  Request request;
  request.prompt_tokens = std::move(tokens);
  request.max_tokens = 0;
  request.prompt_logprobs = true;
  auto stream = engine.submit(request);
  if (!stream)
    return tl::unexpected(stream.error());
  PromptLogprobs scores;
  while (auto event = stream->next()) {
    if (auto* prompt = std::get_if<PromptLogprobs>(&*event))
      scores = std::move(*prompt);
    else if (auto* end = std::get_if<Finished>(&*event); end && end->error)
      return tl::unexpected(*end->error);
  }
  return scores;
}

Result<Scores> score_all(Engine& engine, std::vector<TokenId> tokens, std::size_t context) {
  Scores scores;
  scores.tokens = std::move(tokens);
  const std::vector<TokenId>& all = scores.tokens;
  ProgressLine line;
  for (const ScoreWindow& window : score_windows(all.size(), context)) {
    auto scored =
        score_window(engine, {all.begin() + long(window.begin), all.begin() + long(window.end)});
    if (!scored)
      return tl::unexpected(scored.error());
    for (std::size_t i = window.fresh; i < window.end; ++i)
      scores.logprobs.push_back(scored->logprobs[i - window.begin].logprob);
    line.show("Scoring", double(window.end) / double(all.size()));
  }
  return scores;
}

int context_of(const ModelInfo& model, const EngineOptions& options) {
  const int asked = options.max_model_len;
  return asked > 0 ? std::min(asked, model.max_model_len) : model.max_model_len;
}

boost::json::object to_json(const Scores& scores) {
  boost::json::array logprobs{nullptr};
  for (const float logprob : scores.logprobs)
    logprobs.emplace_back(logprob);
  return {{"tokens", ids_json(scores.tokens)},
          {"logprobs", std::move(logprobs)},
          {"perplexity", scores.perplexity()}};
}

std::string to_text(const Scores& scores) {
  return fmt::format("tokens      {}\nperplexity  {:.4f}\nbits/token  {:.4f}\n",
                     scores.tokens.size(), scores.perplexity(), std::log2(scores.perplexity()));
}

/// Checks that there is something to score, and tells the user if it takes several windows.
Result<void> check_text(const Options& options, std::size_t tokens, int context) {
  if (tokens < 2)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has {} tokens", options.file, tokens),
                "give a text of at least two: the first has no probability");
  if (context < 2)
    return fail(ErrorCode::invalid_argument, "a context of one token leaves none to score",
                "give --max-model-len at least 2");
  if (tokens > std::size_t(context))
    note(fmt::format("{} tokens, context {}: scored in windows that overlap by half\n", tokens,
                     context));
  return {};
}

Result<int> run_score(const Options& options, const std::string& text) {
  auto session = open_session(options.engine);
  if (!session)
    return tl::unexpected(session.error());
  Engine& engine = session->engine;
  auto tokens = engine.tokenize(text, true, true);
  const int context = context_of(engine.target(), options.engine);
  if (const auto enough = check_text(options, tokens.size(), context); !enough)
    return tl::unexpected(enough.error());
  const auto scores = score_all(engine, std::move(tokens), std::size_t(context));
  if (!scores)
    return tl::unexpected(scores.error());
  return options.json ? print_json(to_json(*scores)) : print_text(to_text(*scores));
}

/// Returns the draft of a comparison: the demo target has the demo pair's; any other has none by
/// default.
std::string draft_of(const Options& options) {
  if (options.draft == "auto")
    return options.engine.target == "demo" ? "demo" : "";
  return options.draft == "none" ? "" : options.draft;
}

Result<int> run_comparison(const Options& options, const std::string& text) {
  const auto comparison =
      WeightComparison::open({options.engine, options.compared, draft_of(options)});
  if (!comparison)
    return tl::unexpected(comparison.error());
  const auto tokens = comparison->tokenize(text);
  if (const auto enough = check_text(options, tokens.size(), comparison->context()); !enough)
    return tl::unexpected(enough.error());
  ProgressLine line;
  const auto figures = comparison->measure(
      tokens, [&line](const std::string& what, double done) { line.show(what, done); });
  line.clear();
  if (!figures)
    return tl::unexpected(figures.error());
  return options.json ? print_json(comparison_json(*comparison, *figures, tokens.size()))
                      : print_text(comparison_text(*comparison, *figures, tokens.size()));
}

Result<int> run(const Options& options) {
  const auto text = read_text({.text = {}, .file = options.file});
  if (!text)
    return tl::unexpected(text.error());
  return options.compared.empty() ? run_score(options, *text) : run_comparison(options, *text);
}

void add_comparison_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Comparison");
  auto* compare = add_weight_formats(
      app, "--compare-weights", options.compared,
      "Compare the model with its blocks in each of these formats, for each choice of scales");
  for (const char* own : {"--weights", "--head-weights", "--weight-scales"})
    compare->excludes(app.get_option(own));
  app.add_option("-d,--draft-model", options.draft,
                 "Whose acceptance is compared, too: a model, none, or auto: demo for the model "
                 "demo")
      ->capture_default_str()
      ->needs(compare)
      ->type_name("MODEL");
}

constexpr const char* footer = R"(Examples:
  paceline score module.py
  paceline score --json - < module.py
  paceline score --compare-weights mxfp8,mxfp6,mxfp4 module.py

Log-probabilities are natural logarithms of the model's own distribution (temperature 1).
Perplexity is exp of minus their mean; the first token has none.

A comparison shows, beside the size of the weights and perplexity: KL, the divergence from the
checkpoint as it is, in nats a token; the share of tokens at which both find the same one likeliest;
and how often, at temperature 1, a token is accepted that is drafted by these weights for the
checkpoint as it is ("as draft": -d self:FORMAT), by the draft for these weights ("draft"), and by
the draft in the same format ("draft too"). With --kv-cache-dtype int8 all but the checkpoint as it
is have such a cache; one line more has it with the checkpoint's weights. With --activations int8
a line more of each format whose codes are integers has its rows rounded to 8 bits.)";

} // namespace

Command add_score(CLI::App& program) {
  auto* app = program.add_subcommand("score", "Log-probabilities and perplexity of a text");
  auto options = std::make_shared<Options>();
  options->engine.drafters.clear();
  options->engine.speculation = SpeculationMode::off;
  app->add_option("file", options->file, "The text; -: standard input")
      ->required()
      ->type_name("FILE");
  add_model_options(*app, options->engine);
  add_comparison_options(*app, *options);
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
