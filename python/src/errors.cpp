#include "python/src/errors.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace paceline::python {

void raise(const Error& error, nb::handle completion) {
  const nb::object type = nb::module_::import_("paceline._errors").attr("Error");
  nb::object raised = type(to_string(error.code), error.message, error.hint);
  if (completion.is_valid())
    raised.attr("completion") = completion;
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw nb::python_error();
}

} // namespace paceline::python
