#include "speculation/form_guesses.hpp"

#include "sampling/warp.hpp"

namespace paceline::speculation {

std::optional<sampling::FormToken> FormGuesses::asked(const SequenceSpec& spec,
                                                      std::span<const TokenId> text) {
  return spec.warping.constraint->foretell({text, std::size_t(spec.prompt_tokens), {}});
}

std::optional<FormGuesses::Guess> FormGuesses::behind(const SequenceSpec& spec,
                                                      std::span<const TokenId> text) const {
  const auto next = asked(spec, text);
  if (!next)
    return std::nullopt;
  return Guess{next->token, right_[std::size_t(next->kind)].value};
}

void FormGuesses::learn(const SequenceSpec& spec, std::span<const TokenId> committed) {
  for (std::size_t i = read_.value_or(committed.size()); i < committed.size(); ++i)
    if (const auto said = asked(spec, committed.first(i)))
      right_[std::size_t(said->kind)].add(said->token == committed[i], 1, memory);
  read_ = committed.size();
}

} // namespace paceline::speculation
