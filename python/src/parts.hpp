// The parts of the extension module, each of which adds its classes.
#pragma once

#include <nanobind/nanobind.h>

namespace paceline::python {

void add_request(nanobind::module_& module);
void add_options(nanobind::module_& module);
void add_results(nanobind::module_& module);
void add_drafter(nanobind::module_& module);
void add_stream(nanobind::module_& module);
void add_engine(nanobind::module_& module);

} // namespace paceline::python
