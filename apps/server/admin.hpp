// Requests of the operator to a running server, behind a key of their own.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

namespace paceline::apps::serve {

/// These answer when the model is loaded, or has gone.
boost::asio::awaitable<void> load_model(Service& service, Exchange& exchange);
boost::asio::awaitable<void> unload_model(Service& service, Exchange& exchange);

} // namespace paceline::apps::serve
