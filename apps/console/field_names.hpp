// The names of the library's fields as the program's users know them.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>

namespace paceline::apps {

/// Replaces fields in a text of the library's by options: "EngineOptions::devices = cpu" becomes
/// "--device cpu". A field that no option sets keeps its name.
std::string with_options(std::string_view text);
Error with_options(const Error& error);

/// Replaces fields by the names that clients of a server know: its own fields are those of its
/// request ("Request::max_tokens" becomes "max_tokens"), the engine's are the server's options.
Error with_request_fields(const Error& error);

} // namespace paceline::apps
