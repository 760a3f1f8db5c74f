// The endpoints of the server.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

namespace paceline::apps::serve {

// These endpoints are OpenAI's.
boost::asio::awaitable<void> completions(Service& service, Exchange& exchange);
boost::asio::awaitable<void> chat_completions(Service& service, Exchange& exchange);
boost::asio::awaitable<void> responses(Service& service, Exchange& exchange);
boost::asio::awaitable<void> list_models(Service& service, Exchange& exchange);
boost::asio::awaitable<void> show_model(Service& service, Exchange& exchange);

// These endpoints are vLLM's.
boost::asio::awaitable<void> tokenize(Service& service, Exchange& exchange);
boost::asio::awaitable<void> detokenize(Service& service, Exchange& exchange);
boost::asio::awaitable<void> version(Service& service, Exchange& exchange);

// These endpoints are for whoever watches over the server.
boost::asio::awaitable<void> health(Service& service, Exchange& exchange);  ///< The process lives.
boost::asio::awaitable<void> ready(Service& service, Exchange& exchange);   ///< It takes requests.
boost::asio::awaitable<void> metrics(Service& service, Exchange& exchange); ///< Prometheus' text.

} // namespace paceline::apps::serve
