#include "python/src/stream.hpp"

#include "python/src/errors.hpp"
#include "python/src/interpreter.hpp"
#include "python/src/parts.hpp"

#include <cerrno>
#include <chrono>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <system_error>

namespace nb = nanobind;

namespace paceline::python {
namespace {

/// How long a thread waits before it looks for signals.
constexpr std::chrono::milliseconds between_signals{100};

class Reading {
public:
  explicit Reading(bool& read) : read_(read) {
    if (read)
      raise({ErrorCode::invalid_argument, "another thread reads this stream",
             "let one thread read it, or submit a request for each"});
    read_ = true;
  }
  ~Reading() { read_ = false; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

private:
  bool& read_;
};

} // namespace

Wakeups::Wakeups() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw std::system_error(errno, std::generic_category(), "eventfd");
}

Wakeups::~Wakeups() {
  close(descriptor_);
}

void Wakeups::push(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  ready_.insert(key);
  eventfd_write(descriptor_, 1);
}

std::vector<std::uint64_t> Wakeups::take() {
  const std::lock_guard lock(mutex_);
  eventfd_t count = 0;
  eventfd_read(descriptor_, &count);
  std::vector<std::uint64_t> keys(ready_.begin(), ready_.end());
  ready_.clear();
  return keys;
}

std::optional<Delta> OpenStream::take(Event event) {
  auto delta = answer_.take(std::move(event));
  if (answer_.ended && answer_.end.error)
    raise(*answer_.end.error, nb::cast(answer_));
  return delta;
}

std::optional<Delta> OpenStream::wait(bool whole) {
  std::optional<Event> event;
  {
    const WithoutGil working;
    const auto until = std::chrono::steady_clock::now() + between_signals;
    do {
      event = stream_.next_for(between_signals);
      const auto* delta = event ? std::get_if<Delta>(&*event) : nullptr;
      if (!whole || !delta)
        break;
      answer_.add(*delta);
      event.reset();
    } while (std::chrono::steady_clock::now() < until);
  }
  if (event)
    return take(std::move(*event));
  if (getpid() != process_)
    raise({ErrorCode::unavailable, "the stream belongs to the process that opened it",
           "open an engine after the fork, or run a program in the child"});
  if (PyErr_CheckSignals() != 0) {
    stream_.cancel();
    throw nb::python_error();
  }
  return std::nullopt;
}

std::optional<Delta> OpenStream::next() {
  const Reading reading(read_);
  while (!answer_.ended)
    if (auto delta = wait(false))
      return delta;
  return std::nullopt;
}

void OpenStream::finish() {
  const Reading reading(read_);
  while (!answer_.ended)
    wait(true);
}

std::optional<Delta> OpenStream::poll() {
  const Reading reading(read_);
  while (!answer_.ended) {
    auto event = stream_.try_next();
    if (!event)
      break;
    if (auto delta = take(std::move(*event)))
      return delta;
  }
  return std::nullopt;
}

void OpenStream::watch(const LoopWakeups& wakeups, std::uint64_t key, bool at_end) {
  auto push = [inside = wakeups.inside, key] { inside->push(key); };
  const WithoutGil working;
  if (at_end)
    stream_.on_end(std::move(push));
  else
    stream_.on_ready(std::move(push));
}

void add_stream(nb::module_& module) {
  nb::class_<LoopWakeups>(module, "Wakeups")
      .def(nb::init<>())
      .def("fileno", [](const LoopWakeups& wakeups) { return wakeups.inside->descriptor(); })
      .def("take", [](const LoopWakeups& wakeups) { return wakeups.inside->take(); });
  nb::class_<OpenStream>(module, "OpenStream")
      .def("next", &OpenStream::next)
      .def("poll", &OpenStream::poll)
      .def("finish", &OpenStream::finish)
      .def("cancel", &OpenStream::cancel)
      .def("watch", &OpenStream::watch, nb::arg("wakeups"), nb::arg("key"), nb::arg("at_end"))
      .def_prop_ro("completion", &OpenStream::answer, nb::rv_policy::copy)
      .def_prop_ro("ended", [](const OpenStream& stream) { return stream.answer().ended; });
}

} // namespace paceline::python
