// What texts and errors say.
#pragma once

#include "paceline/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace paceline::testing {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// Returns whether the error has these words; if not, the test's log says what it has.
inline bool says(const Error& error, std::string_view words) {
  const std::string text = error.text();
  const bool found = contains(text, words);
  if (!found)
    MESSAGE(text, " lacks: ", words);
  return found;
}

} // namespace paceline::testing
