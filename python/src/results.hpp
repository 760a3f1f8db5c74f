// What a request brought, with the prompt's log-probabilities if they were asked for.
#pragma once

#include "paceline/event.hpp"

#include <optional>

namespace paceline::python {

struct Answer : Completion {
  std::optional<PromptLogprobs> prompt{};
  bool ended = false;

  /// Takes an event; returns a copy of it if it is a Delta.
  std::optional<Delta> take(Event event);
};

} // namespace paceline::python
