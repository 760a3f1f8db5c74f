// The messages between engine and facade, beside a request itself (scheduling/requests.hpp).
#pragma once

#include "base/clock.hpp"
#include "speculation/sequence.hpp"

namespace paceline::messages {

/// Caller to facade.
struct Cancel {
  speculation::SequenceId request = 0;
};

/// Engine to facade: refuse new requests, and answer when the last one has ended. Requests that are
/// left after `limit` are cancelled.
struct Drain {
  base::Duration limit{};
};
struct Drained {};

} // namespace paceline::messages
