// Where a request's events go.
#pragma once

#include "paceline/event.hpp"

namespace paceline::base {

/// Implemented by the public Stream. Threads: any.
class EventSink {
public:
  virtual ~EventSink() = default;
  virtual void deliver(Event event) = 0;
};

} // namespace paceline::base
