// Reading the body of a request into what an endpoint needs.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>

namespace paceline::apps::serve {

/// A function that reads a body, or returns what is wrong with it.
using BodyReader = std::function<std::optional<ApiError>(const boost::json::object&)>;

/// Parses the exchange's body, which is then no longer there, and calls `read`; a long body is
/// parsed on another thread, so that it holds up nobody. What parsing allocates counts as the
/// request's. read: must live until then.
boost::asio::awaitable<std::optional<ApiError>> read_body(Service& service, Exchange& exchange,
                                                          const BodyReader& read);

/// Returns the vocabulary of the model that a body asks for. If the model has no engine yet, the
/// size is unknown, and any id may be one of its tokens.
int vocabulary_of(const Vocabularies& vocabularies, const boost::json::object& body);

} // namespace paceline::apps::serve
