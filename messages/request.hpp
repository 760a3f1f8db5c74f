// Engine and facade: a request's way in.
#pragma once

#include "base/clock.hpp"
#include "base/event_sink.hpp"
#include "speculation/sequence.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::messages {

/// Caller to facade: a checked request with all defaults filled in.
struct Submit {
  speculation::SequenceSpecRef spec;
  std::vector<TokenId> prompt;
  std::vector<std::string> stop;
  bool skip_special_tokens = true;
  std::optional<base::Duration> deadline; ///< From now on.
  std::shared_ptr<base::EventSink> sink;
};

/// Caller to facade.
struct Cancel {
  speculation::SequenceId request = 0;
};

/// Facade to scheduler: its request has ended (stop string, cancel, deadline).
struct Abandon {
  speculation::SequenceId sequence = 0;
};

/// Engine to facade: refuse new requests, and answer when the last one has ended. After `limit`
/// what is left is cancelled.
struct Drain {
  base::Duration limit{};
};
struct Drained {};

} // namespace paceline::messages
