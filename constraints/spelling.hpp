// How a text that the form prescribes is written in tokens.
#pragma once

#include "sampling/constraint.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace paceline::constraints {

/// Returns whether all that may come behind a token, which may come itself, begins with a byte.
using GoesOn = std::function<bool(TokenId token, char byte)>;

/// Returns the allowed token whose text all others begin, or begin and then go on from: the
/// longest, which is how a tokenizer that joins bytes writes it, nearly always. Behind a shorter
/// one other texts may come that no longer token has, so `goes_on` is asked behind the longest of
/// them. None if texts part at the first byte, the answer may end here, or more than
/// limits::spellings_max tokens may come.
std::optional<sampling::FormToken> spelled_by(std::span<const std::uint32_t> mask,
                                              const text::Tokenizer& tokenizer,
                                              const GoesOn& goes_on);

/// Returns whether all tokens of the mask begin with the byte, as far as these are few.
bool all_begin_with(char byte, std::span<const std::uint32_t> mask,
                    const text::Tokenizer& tokenizer);

} // namespace paceline::constraints
