// Answers that are held to JSON schemas, drawn by chance: one schema a line of standard input. For
// each a line: {"texts": [...], "dead_ends": how often nothing could follow}, or {"error": text}.
// tools/reference/schema_check.py lets another program judge them.
#include "constraints/compiler.hpp"
#include "sampling/warp.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace paceline;
namespace json = boost::json;

constexpr TokenId end_of_text = 2; // of the demo models
constexpr int walks = 60;
constexpr std::size_t tokens_max = 80;

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Walker {
public:
  explicit Walker(std::shared_ptr<const text::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)),
        compiler_({tokenizer_, tokenizer_->vocabulary(), {end_of_text}}) {}

  json::object answers(const std::string& schema) {
    json::array texts;
    int dead_ends = 0;
    for (int seed = 0; seed < walks; ++seed) {
      const auto form = compiler_.compile({Constraint::Kind::json_schema, schema, {}});
      if (!form)
        return {{"error", form.error().text()}};
      bool dead_end = false;
      if (const auto text = walk(**form, std::mt19937(unsigned(seed)), dead_end))
        texts.emplace_back(text::sanitize_utf8(*text));
      dead_ends += dead_end;
    }
    return {{"texts", texts}, {"dead_ends", dead_ends}};
  }

private:
  /// A text that came to its end.
  std::optional<std::string> walk(const sampling::Constraint& form, std::mt19937 chance,
                                  bool& dead_end) {
    std::vector<TokenId> output;
    sampling::TokenMask mask;
    while (output.size() < tokens_max) {
      if (!form.next({output, 0, {}}, mask))
        return std::nullopt;
      const std::vector<TokenId> allowed = allowed_by(mask);
      if (dead_end = allowed.empty(); dead_end)
        return std::nullopt;
      const bool may_end = sampling::allows(mask, end_of_text);
      if (may_end && (allowed.size() == 1 || chance() % 2))
        return tokenizer_->decode(output);
      output.push_back(next(allowed, chance));
    }
    return std::nullopt;
  }

  std::vector<TokenId> allowed_by(const sampling::TokenMask& mask) const {
    std::vector<TokenId> out;
    for (TokenId token = 0; token < tokenizer_->vocabulary(); ++token)
      if (sampling::allows(mask, token))
        out.push_back(token);
    return out;
  }

  /// What closes a value comes more often, so that most texts end.
  TokenId next(const std::vector<TokenId>& allowed, std::mt19937& chance) const {
    std::vector<TokenId> closing;
    for (const TokenId token : allowed) {
      const std::string bytes = tokenizer_->bytes(token);
      if (bytes.size() <= 2 && bytes.find_first_of("\"}]") != std::string::npos)
        closing.push_back(token);
    }
    const auto& from = !closing.empty() && chance() % 3 ? closing : allowed;
    return from[chance() % from.size()];
  }

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  constraints::Compiler compiler_;
};

} // namespace

int main(int argc, char** argv) {
  auto tokenizer = text::Tokenizer::parse("t", argc > 1 ? contents(argv[1]) : "");
  if (!tokenizer) {
    std::fprintf(stderr, "usage: schema_walk TOKENIZER.json <SCHEMAS: %s\n",
                 tokenizer.error().text().c_str());
    return 2;
  }
  Walker walker(*std::move(tokenizer));
  for (std::string schema; std::getline(std::cin, schema);)
    std::cout << json::serialize(walker.answers(schema)) << std::endl;
}
