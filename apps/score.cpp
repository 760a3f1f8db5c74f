// paceline score: how likely a model finds a text.
#include "apps/command.hpp"
#include "apps/input.hpp"
#include "apps/options.hpp"
#include "apps/output.hpp"
#include "apps/session.hpp"

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
  bool json = false;
};

struct Scores {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs; ///< Of tokens[1], tokens[2], ...: nothing precedes the first.

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

/// A text longer than the context is scored in windows that overlap by half, so that each token
/// past the first window has at least half a context before it.
Result<Scores> score_all(Engine& engine, std::vector<TokenId> tokens, std::size_t context) {
  Scores scores;
  scores.tokens = std::move(tokens);
  const std::size_t count = scores.tokens.size();
  ProgressLine line;
  for (std::size_t done = 1; done < count;) {
    const std::size_t begin = done == 1 ? 0 : done - context / 2;
    const std::size_t end = std::min(count, begin + context);
    auto window = score_window(
        engine, {scores.tokens.begin() + long(begin), scores.tokens.begin() + long(end)});
    if (!window)
      return tl::unexpected(window.error());
    for (; done < end; ++done)
      scores.logprobs.push_back(window->logprobs[done - begin].logprob);
    line.show("Scoring", double(done) / double(count));
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

Result<int> run(const Options& options) {
  auto text = read_text({.text = {}, .file = options.file});
  if (!text)
    return tl::unexpected(text.error());
  auto session = open_session(options.engine);
  if (!session)
    return tl::unexpected(session.error());
  Engine& engine = session->engine;
  auto tokens = engine.tokenize(*text);
  if (tokens.size() < 2)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} has {} tokens", options.file, tokens.size()),
                "give a text of at least two: the first has no probability");
  const auto context = std::size_t(context_of(engine.target(), options.engine));
  if (context < 2)
    return fail(ErrorCode::invalid_argument, "a context of one token leaves none to score",
                "give --max-model-len at least 2");
  if (tokens.size() > context)
    note(fmt::format("{} tokens, context {}: scored in windows that overlap by half\n",
                     tokens.size(), context));
  const auto scores = score_all(engine, std::move(tokens), context);
  if (!scores)
    return tl::unexpected(scores.error());
  return options.json ? print_json(to_json(*scores)) : print_text(to_text(*scores));
}

constexpr const char* footer = R"(Examples:
  paceline score module.py
  paceline score --json - < module.py

Log-probabilities are natural logarithms of the model's own distribution (temperature 1).
Perplexity is exp of minus their mean; the first token has none.)";

} // namespace

Command add_score(CLI::App& program) {
  auto* app = program.add_subcommand("score", "Log-probabilities and perplexity of a text");
  auto options = std::make_shared<Options>();
  options->engine.draft.clear();
  options->engine.speculation = SpeculationMode::off;
  app->add_option("file", options->file, "The text; -: standard input")
      ->required()
      ->type_name("FILE");
  add_model_options(*app, options->engine);
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
