// What an operator can ask of a server that runs: behind a key of its own.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

namespace paceline::apps::serve {

/// Both answer when it is done.
boost::asio::awaitable<void> load_model(Service& service, Exchange& exchange);
boost::asio::awaitable<void> unload_model(Service& service, Exchange& exchange);

} // namespace paceline::apps::serve
