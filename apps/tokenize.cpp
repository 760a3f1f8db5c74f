// paceline tokenize: the tokens of a text.
#include "apps/command.hpp"
#include "apps/input.hpp"
#include "apps/options.hpp"
#include "apps/output.hpp"
#include "models/model.hpp"
#include "models/tokenizer.hpp"

#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <memory>
#include <vector>

namespace paceline::apps {
namespace {

struct Options {
  std::string model = "demo";
  PromptSource text;
  bool json = false;
};

boost::json::object to_json(const models::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  boost::json::array pieces;
  for (const TokenId id : ids)
    pieces.emplace_back(tokenizer.piece(id));
  return {{"tokens", ids_json(ids)}, {"pieces", std::move(pieces)}};
}

std::string to_text(const models::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids)
    text += fmt::format("{:>7}  {}\n", id, tokenizer.piece(id));
  return text;
}

Result<std::shared_ptr<const models::Tokenizer>> load_tokenizer(const std::string& model) {
  return models::resolve_model_path(model, "target").and_then(models::Tokenizer::load);
}

Result<int> run(const Options& options) {
  const auto text = read_text(options.text);
  if (!text)
    return tl::unexpected(text.error());
  const auto tokenizer = load_tokenizer(options.model);
  if (!tokenizer)
    return tl::unexpected(tokenizer.error());
  const auto ids = (*tokenizer)->encode(*text);
  return options.json ? print_json(to_json(**tokenizer, ids))
                      : print_text(to_text(**tokenizer, ids));
}

constexpr const char* footer = R"(Examples:
  paceline tokenize "def f(x):"
  paceline tokenize -f module.py --json

Each line has a token's id and its piece as the vocabulary spells it: in byte-level
vocabularies a blank is shown as 'Ġ' and a newline as 'Ċ'.)";

} // namespace

Command add_tokenize(CLI::App& program) {
  auto* app = program.add_subcommand("tokenize", "Show the tokens of a text");
  auto options = std::make_shared<Options>();
  add_prompt_options(*app, options->text, "text");
  app->add_option("-m,--model", options->model, "The model whose tokenizer is used")
      ->capture_default_str()
      ->type_name("DIR");
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
