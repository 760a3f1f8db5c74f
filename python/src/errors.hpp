// Errors of the library as exceptions of Python.
#pragma once

#include "paceline/error.hpp"

#include <nanobind/nanobind.h>
#include <utility>

namespace paceline::python {

/// Raises paceline.Error. completion: what had come of an answer that failed; may be null.
[[noreturn]] void raise(const Error& error, nanobind::handle completion = {});

template <class Value>
Value value_or_raise(Result<Value> result) {
  if (!result)
    raise(result.error());
  if constexpr (!std::is_void_v<Value>)
    return std::move(*result);
}

} // namespace paceline::python
