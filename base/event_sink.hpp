// The receiver of a request's events.
#pragma once

#include "paceline/event.hpp"

namespace paceline::base {

/// Receives a request's events; the public Stream implements it. Threads: any.
class EventSink {
public:
  virtual ~EventSink() = default;
  virtual void deliver(Event event) = 0;
};

} // namespace paceline::base
