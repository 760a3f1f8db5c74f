// Any form is compiled or refused in a line, and what an output may go on with is a function of the
// output alone. The first byte says of which kind the form is; behind a NUL, bytes choose the
// tokens of the output among those that may come.
#include "constraints/compiler.hpp"
#include "sampling/warp.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <vector>

namespace {

using namespace paceline;
using paceline::testing::require;

constexpr TokenId end_of_text = 2;

struct World {
  std::shared_ptr<const text::Tokenizer> tokenizer =
      text::Tokenizer::parse("t", testing::read_file(testing::demo("target") + "/tokenizer.json"))
          .value();
  constraints::Compiler compiler{{tokenizer, tokenizer->vocabulary(), {end_of_text}}};
};

Constraint form_of(std::string_view input) {
  constexpr Constraint::Kind kinds[] = {Constraint::Kind::json_schema, Constraint::Kind::regex,
                                        Constraint::Kind::grammar, Constraint::Kind::structural_tag,
                                        Constraint::Kind::choice};
  const auto kind =
      kinds[input.empty() ? 0 : static_cast<unsigned char>(input[0]) % std::size(kinds)];
  std::string text(input.substr(std::min<std::size_t>(1, input.size())));
  if (kind == Constraint::Kind::choice)
    return {kind, "", {text, "other"}};
  return {kind, std::move(text), {}};
}

/// The token that a byte chooses among those that are allowed.
TokenId chosen(const sampling::TokenMask& mask, int vocabulary, unsigned char byte) {
  std::vector<TokenId> allowed;
  for (TokenId token = 0; token < vocabulary; ++token)
    if (sampling::allows(mask, token))
      allowed.push_back(token);
  return allowed.empty() ? end_of_text : allowed[byte % allowed.size()];
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  static World world;
  const std::size_t end = std::min(input.find('\0'), input.size());
  const Constraint asked = form_of(input.substr(0, end));
  const auto form = world.compiler.compile(asked);
  if (!form)
    return require(form.error().text().find('\n') == std::string::npos, "an error is one line");
  std::vector<TokenId> output;
  sampling::TokenMask mask;
  sampling::TokenMask again;
  for (const char byte : input.substr(end)) {
    const bool restricted = (*form)->next({output, 0, {}}, mask);
    (*form)->expect({output, 0, {}}, std::vector<TokenId>{TokenId(byte & 127), 5});
    const auto fresh = world.compiler.compile(asked);
    require(fresh && (*fresh)->next({output, 0, {}}, again) == restricted,
            "what is restricted does not depend on what was asked");
    if (!restricted)
      return;
    require(mask == again, "a mask does not depend on what was asked");
    const TokenId next =
        chosen(mask, world.tokenizer->vocabulary(), static_cast<unsigned char>(byte));
    if (next == end_of_text)
      return;
    output.push_back(next);
  }
}
