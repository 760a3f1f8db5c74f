// paceline tokenize: the tokens of a text.
#include "apps/command.hpp"
#include "apps/input.hpp"
#include "apps/json_text.hpp"
#include "apps/options.hpp"
#include "apps/output.hpp"
#include "models/sources.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace paceline::apps {
namespace {

struct Options {
  std::string model = "demo";
  PromptSource text;
  bool json = false;
  bool lines = false;
};

boost::json::object to_json(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  boost::json::array pieces;
  for (const TokenId id : ids)
    pieces.emplace_back(tokenizer.piece(id));
  return {{"tokens", ids_json(ids)}, {"pieces", std::move(pieces)}};
}

std::string to_text(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids)
    text += fmt::format("{:>7}  {}\n", id, tokenizer.piece(id));
  return text;
}

std::optional<std::vector<TokenId>> to_ids(const boost::json::array& array) {
  std::vector<TokenId> ids;
  for (const boost::json::value& value : array) {
    boost::json::error_code failed;
    ids.push_back(value.to_number<TokenId>(failed));
    if (failed)
      return {};
  }
  return ids;
}

/// A string gives its tokens, a list of ids the text they read as.
std::optional<boost::json::object> answer(const text::Tokenizer& tokenizer, std::string_view line) {
  boost::json::error_code failed;
  const boost::json::value value = boost::json::parse(line, failed);
  if (failed)
    return {};
  if (value.is_string())
    return to_json(tokenizer, tokenizer.encode(value.get_string()));
  const auto ids = value.is_array() ? to_ids(value.get_array()) : std::nullopt;
  if (!ids)
    return {};
  return boost::json::object{{"text", tokenizer.decode(*ids)}};
}

Result<int> print_lines(const text::Tokenizer& tokenizer, std::string_view input) {
  std::string output;
  for (int number = 1; !input.empty(); ++number) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(line.size() + 1, input.size()));
    const auto object = answer(tokenizer, line);
    if (!object)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("line {} is neither a JSON string nor a list of ids", number),
                  "write one text or list per line, such as \"def f\" or [348, 277]");
    output += json_text(*object) + '\n';
  }
  return print_text(output);
}

Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const std::string& model) {
  return models::open_checkpoint(model, "target").and_then([](const auto& source) {
    return source->tokenizer();
  });
}

Result<int> run(const Options& options) {
  const auto text = read_text(options.text);
  if (!text)
    return tl::unexpected(text.error());
  const auto tokenizer = load_tokenizer(options.model);
  if (!tokenizer)
    return tl::unexpected(tokenizer.error());
  if (options.lines)
    return print_lines(**tokenizer, *text);
  const auto ids = (*tokenizer)->encode(*text);
  return options.json ? print_json(to_json(**tokenizer, ids))
                      : print_text(to_text(**tokenizer, ids));
}

constexpr const char* footer = R"(Examples:
  paceline tokenize "def f(x):"
  paceline tokenize -f module.py --json
  echo '"def f(x):"' | paceline tokenize --jsonl
  echo '[348, 277]' | paceline tokenize --jsonl

Each line has a token's id and its piece as the vocabulary spells it: in byte-level
vocabularies a blank is shown as 'Ġ' and a newline as 'Ċ'.)";

} // namespace

Command add_tokenize(CLI::App& program) {
  auto* app = program.add_subcommand("tokenize", "Show the tokens of a text");
  auto options = std::make_shared<Options>();
  add_prompt_options(*app, options->text, "text");
  app->add_option("-m,--model", options->model, "The model whose tokenizer is used")
      ->capture_default_str()
      ->type_name("MODEL");
  auto* json = add_json_option(*app, options->json);
  app->add_flag("--jsonl", options->lines,
                "Read lines of JSON, write one object for each: strings are encoded, lists of ids "
                "decoded")
      ->excludes(json);
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
