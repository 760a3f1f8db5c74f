// The extension module: what paceline/*.py are written with. Nothing here is meant for users.
#include "paceline/version.hpp"
#include "python/src/interpreter.hpp"
#include "python/src/parts.hpp"

namespace nb = nanobind;
namespace python = paceline::python;

NB_MODULE(_native, module) {
  // What still lives when the interpreter ends is the user's, and no leak of this module.
  nb::set_leak_warnings(false);
  module.attr("__version__") = PACELINE_VERSION;
  python::add_request(module);
  python::add_options(module);
  python::add_results(module);
  python::add_drafter(module);
  python::add_stream(module);
  python::add_engine(module);
  module.def("end_interpreter", &python::end_interpreter);
  module.def("forget_threads", &python::forget_threads);
}
