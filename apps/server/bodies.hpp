// From the bytes of a body to what an endpoint wants of it.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>

namespace paceline::apps::serve {

/// What reads a body, or says what is wrong with it.
using BodyReader = std::function<std::optional<ApiError>(const boost::json::object&)>;

/// Parses the exchange's body, which is then no longer there, and has it read; a long one where it
/// holds up nobody. What parsing allocates counts as the request's. read: must live until then.
boost::asio::awaitable<std::optional<ApiError>> read_body(Service& service, Exchange& exchange,
                                                          const BodyReader& read);

/// Of the model that a body asks for; of one that has no engine nothing is known, and any id may be
/// one of its tokens.
int vocabulary_of(const Vocabularies& vocabularies, const boost::json::object& body);

} // namespace paceline::apps::serve
