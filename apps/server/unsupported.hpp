// Fields of other servers' requests that are known here and not obeyed.
#pragma once

#include "apps/server/api.hpp"
#include "apps/server/errors.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace paceline::apps::serve {

/// What `include` of a response's request asks for log-probabilities by.
inline constexpr const char* included_logprobs = "message.output_text.logprobs";

/// Whether a value asks for nothing: null, false, 0, or something empty.
bool asks_for_nothing(const boost::json::value& value);

/// Finds the first field whose value would change the answer. Ignoring it would give a wrong
/// answer.
std::optional<ApiError> find_unsupported(Api api, const boost::json::object& body);

/// Fields that are refused unless their value changes nothing.
std::span<const std::string_view> unsupported_fields();
/// Fields that may have any value, as no answer depends on them. Unknown fields are ignored as
/// well.
std::span<const std::string_view> ignored_fields();

} // namespace paceline::apps::serve
