// Reads chat templates from files.
#pragma once

#include "paceline/error.hpp"
#include "text/chat_template.hpp"

#include <string>

namespace paceline::models {

/// Reads the template in a file of its own. Errors name the file; those that the template itself
/// gives when it renders a conversation do not: clients of a server see them.
Result<text::ChatTemplate> read_chat_template(const std::string& path,
                                              text::ChatTemplate::Variables variables);
/// Makes the template that stands in a file among other things.
Result<text::ChatTemplate> parse_chat_template(const std::string& path, const std::string& source,
                                               text::ChatTemplate::Variables variables);

} // namespace paceline::models
