// Fields of OpenAI's and vLLM's requests that are known here but not supported.
#pragma once

#include "apps/serve/errors.hpp"

#include <boost/json/object.hpp>
#include <optional>

namespace paceline::apps::serve {

/// The first field whose value would change the answer: to ignore it would be to give a wrong one.
std::optional<ApiError> find_unsupported(const boost::json::object& body);

} // namespace paceline::apps::serve
