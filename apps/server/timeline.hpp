// What the lanes of all engines do, for the page and for whoever wants to see it.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

namespace paceline::apps::serve {

/// Answers GET /v1/timeline with server-sent events until the client leaves or the server drains.
/// Each event holds, for each engine, what its lanes have ended since the last one and counts of
/// its work (docs/serving.md). A client that reads slowly loses the oldest spans, and is told how
/// many. Lanes record nothing while nobody reads.
boost::asio::awaitable<void> timeline(Service& service, Exchange& exchange);

} // namespace paceline::apps::serve
