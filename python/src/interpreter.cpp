#include "python/src/interpreter.hpp"

#include <atomic>
#include <chrono>
#include <cxxabi.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace paceline::python {
namespace {

std::atomic<bool> ending{false};
/// Threads that have given the lock up and will want it again, and threads of engines that are in
/// Python's code.
std::atomic<int> outside{0};

} // namespace

void sleep_for_good() noexcept {
  for (;;)
    pause();
}

WithoutGil::WithoutGil() {
  ++outside;
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    sleep_for_good();
  }
  --outside;
}

WithGil::WithGil() {
  if (ending)
    throw std::runtime_error("the interpreter is ending");
  ++outside;
  try {
    state_ = PyGILState_Ensure();
  } catch (abi::__forced_unwind&) {
    sleep_for_good();
  }
}

WithGil::~WithGil() {
  PyGILState_Release(state_);
  --outside;
}

void end_interpreter() {
  ending = true;
  PyThreadState* const state = PyEval_SaveThread();
  constexpr std::chrono::milliseconds step{1};
  for (int steps = 0; outside > 0 && steps < 2000; ++steps)
    std::this_thread::sleep_for(step);
  PyEval_RestoreThread(state);
}

bool interpreter_ends() noexcept {
  return ending;
}

void forget_threads() noexcept {
  outside = 0;
}

} // namespace paceline::python
