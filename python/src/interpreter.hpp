// The interpreter's lock (the GIL): given up while the engine works, taken for Python's own code,
// and never a reason for a process to hang or to crash when the interpreter ends.
#pragma once

#include <nanobind/nanobind.h>

namespace paceline::python {

/// Gives the lock up for as long as it lives.
///
/// Until Python 3.13 a thread that asks for the lock of an interpreter that has ended is unwound as
/// by pthread_exit, which would terminate the process in the first destructor. Such a thread sleeps
/// here until the process ends, as later versions of Python have it.
class WithoutGil {
public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

private:
  PyThreadState* state_;
};

/// Takes the lock on a thread that may not be Python's. Throws std::runtime_error once the
/// interpreter is ending.
class WithGil {
public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

private:
  PyGILState_STATE state_;
};

/// Sleeps until the process ends.
[[noreturn]] void sleep_for_good() noexcept;

/// No thread takes the lock from now on that does not have it or wait for it, and those that wait
/// have two seconds for it. Called when the interpreter is about to end, and all engines are
/// closed.
void end_interpreter();
bool interpreter_ends() noexcept;

/// Forgets the parent's other threads, which are not there in a forked child.
void forget_threads() noexcept;

} // namespace paceline::python
