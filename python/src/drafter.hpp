// A drafter written in Python.
#pragma once

#include "paceline/drafter.hpp"

#include <memory>
#include <nanobind/nanobind.h>

namespace paceline::python {

/// Makes a drafter of an object with the methods of paceline.Drafter. Each call of it holds the
/// interpreter's lock, and what it throws counts as a failure of that call.
std::shared_ptr<Drafter> drafter_of(nanobind::object object);

} // namespace paceline::python
