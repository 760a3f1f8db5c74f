// paceline tokenize: the tokens of a text.
#include "apps/console/command.hpp"
#include "apps/console/input.hpp"
#include "apps/console/json_text.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "models/sources.hpp"
#include "text/tokenizer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
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

/// Reads a list of ids. An error names the value that is no id of the vocabulary.
Result<std::vector<TokenId>> to_ids(const text::Tokenizer& tokenizer,
                                    const boost::json::array& array) {
  std::vector<TokenId> ids;
  for (const boost::json::value& value : array) {
    boost::json::error_code failed;
    ids.push_back(value.to_number<TokenId>(failed));
    if (failed || ids.back() < 0 || ids.back() >= tokenizer.vocabulary())
      return fail(ErrorCode::invalid_argument, json_text(value) + " is no token's id",
                  fmt::format("give whole numbers from 0 to {}", tokenizer.vocabulary() - 1));
  }
  return ids;
}

/// Answers one line of JSON: a string gives its tokens, a list of ids gives its text.
Result<boost::json::object> answer(const text::Tokenizer& tokenizer, std::string_view line) {
  boost::json::error_code failed;
  const boost::json::value value = boost::json::parse(line, failed);
  if (!failed && value.is_string())
    return to_json(tokenizer, tokenizer.encode(value.get_string()));
  if (!failed && value.is_array())
    return to_ids(tokenizer, value.get_array()).map([&](const std::vector<TokenId>& ids) {
      return boost::json::object{{"text", tokenizer.decode(ids)}};
    });
  return fail(ErrorCode::invalid_argument, "it is neither a JSON string nor a list of ids",
              "write one text or list per line, such as \"def f\" or [348, 277]");
}

/// Answers each line as soon as it is there. A bad line has its error in place of the answer, so
/// that answers stand beside their lines; the exit status tells of it, too.
Result<int> print_lines(const text::Tokenizer& tokenizer, std::istream& input) {
  Output out;
  std::optional<Error> first;
  int wrong = 0;
  std::string line;
  for (int number = 1; out.open() && std::getline(input, line); ++number) {
    auto object = answer(tokenizer, line);
    if (!object && wrong++ == 0)
      first = Error{object.error().code, fmt::format("line {}: {}", number, object.error().message),
                    object.error().hint};
    if (!object)
      object = boost::json::object{{"error", object.error().text()}};
    out.write(json_text(*object) + '\n');
  }
  if (const auto written = out.finish(); !written)
    return tl::unexpected(written.error());
  if (!first)
    return status_ok;
  if (wrong > 1)
    first->message = fmt::format("{} lines have errors, the first is {}", wrong, first->message);
  return tl::unexpected(*first);
}

/// Answers the lines of the source. Standard input is read as it comes, anything else as a whole.
Result<int> answer_lines(const text::Tokenizer& tokenizer, const PromptSource& source) {
  const bool named = (source.file && *source.file != "-") || (source.text && *source.text != "-");
  if (!named)
    return print_lines(tokenizer, std::cin);
  return read_text(source).and_then([&](const std::string& text) {
    std::istringstream lines(text);
    return print_lines(tokenizer, lines);
  });
}

Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const std::string& model) {
  return models::open_checkpoint(model, "target").and_then([](const auto& source) {
    return source->tokenizer();
  });
}

Result<int> run(const Options& options) {
  if (options.lines)
    return load_tokenizer(options.model).and_then([&](const auto& tokenizer) {
      return answer_lines(*tokenizer, options.text);
    });
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
