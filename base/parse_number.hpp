// Numbers in texts, as std::from_chars reads them.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace paceline::base {

/// Takes the number that the text begins with off its front; none, and nothing is taken: there is
/// none, or `Number` cannot hold it.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc())
    return std::nullopt;
  text.remove_prefix(std::size_t(end - text.data()));
  return number;
}

/// Returns the number that is all of the text; none: it is something else.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  const auto number = take_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

} // namespace paceline::base
