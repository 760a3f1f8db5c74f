// Forms over the demo models' vocabulary, and what they say of a text.
#pragma once

#include "constraints/compiler.hpp"
#include "sampling/warp.hpp"
#include "tests/support/files.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::testing {

inline std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += text;
  return out;
}

/// A compiler of forms, with the tokens that texts are made of.
class Forms {
public:
  static constexpr TokenId end_of_text = 2;

  Forms()
      : tokenizer_(
            text::Tokenizer::parse("t", read_file(demo("target") + "/tokenizer.json")).value()),
        compiler_({tokenizer_, tokenizer_->vocabulary(), {end_of_text}}) {}

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  auto compile(Constraint::Kind kind, std::string text) {
    return compiler_.compile({kind, std::move(text), {}});
  }
  auto usual_json(std::string schema) {
    return compiler_.compile({Constraint::Kind::json_schema, std::move(schema), {}, false});
  }
  auto choice(std::vector<std::string> choices) {
    return compiler_.compile({Constraint::Kind::choice, "", std::move(choices)});
  }

  /// What is said to a form that is refused; "taken": it is not.
  std::string refusal(Constraint::Kind kind, std::string text) {
    return refusal_of({kind, std::move(text), {}});
  }
  std::string refusal_of(const Constraint& asked) {
    const auto form = compiler_.compile(asked);
    return form ? "taken" : form.error().text();
  }

  static bool allows(const sampling::Constraint& form, std::span<const TokenId> output,
                     TokenId next) {
    sampling::TokenMask mask;
    return !form.next({output, 0, {}}, mask) || sampling::allows(mask, next);
  }

  /// What the form says comes behind an output.
  static std::optional<sampling::FormToken> told(const sampling::Constraint& form,
                                                 std::span<const TokenId> output) {
    return form.foretell({output, 0, {}});
  }

  /// Whether an answer may be this text, and end with it.
  bool holds(const sampling::Constraint& form, std::string_view text) const {
    const std::vector<TokenId> tokens = tokenizer_->encode(text, false);
    for (std::size_t n = 0; n < tokens.size(); ++n)
      if (!allows(form, std::span(tokens).first(n), tokens[n]))
        return false;
    return allows(form, tokens, end_of_text);
  }

private:
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  constraints::Compiler compiler_;
};

} // namespace paceline::testing
