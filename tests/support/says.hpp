// What an error says to people.
#pragma once

#include "paceline/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace paceline::testing {

/// Returns whether the error has these words; if not, the test's log says what it has.
inline bool says(const Error& error, std::string_view words) {
  const std::string text = error.text();
  const bool found = text.find(words) != text.npos;
  if (!found)
    MESSAGE(text, " lacks: ", words);
  return found;
}

} // namespace paceline::testing
