// What the server can be asked.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

namespace paceline::apps::serve {

// OpenAI's.
boost::asio::awaitable<void> completions(Service& service, Exchange& exchange);
boost::asio::awaitable<void> chat_completions(Service& service, Exchange& exchange);
boost::asio::awaitable<void> list_models(Service& service, Exchange& exchange);
boost::asio::awaitable<void> show_model(Service& service, Exchange& exchange);

// As vLLM has them.
boost::asio::awaitable<void> tokenize(Service& service, Exchange& exchange);
boost::asio::awaitable<void> detokenize(Service& service, Exchange& exchange);
boost::asio::awaitable<void> version(Service& service, Exchange& exchange);

// For who watches over the server.
boost::asio::awaitable<void> health(Service& service, Exchange& exchange);  ///< The process lives.
boost::asio::awaitable<void> ready(Service& service, Exchange& exchange);   ///< It takes requests.
boost::asio::awaitable<void> metrics(Service& service, Exchange& exchange); ///< For Prometheus.

} // namespace paceline::apps::serve
