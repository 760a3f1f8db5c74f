// What the library calls a field, as the program's users know it.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>

namespace paceline::apps {

/// A text of the library's with options in the place of fields: "EngineOptions::devices = cpu"
/// reads
/// "--device cpu". A field that no option sets keeps its name.
std::string with_options(std::string_view text);
Error with_options(const Error& error);

/// The same for who sends requests to a server: its own fields are those of its request
/// ("Request::max_tokens" reads "max_tokens"), the engine's are the server's options.
Error with_request_fields(const Error& error);

} // namespace paceline::apps
