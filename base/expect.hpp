// Turns error values into exceptions, for the few places (constructors of actors) that need them.
#pragma once

#include "paceline/error.hpp"

#include <stdexcept>
#include <utility>

namespace paceline::base {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().text());
  return std::move(*result);
}

} // namespace paceline::base
