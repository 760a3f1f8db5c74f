// Chat templates in files.
#pragma once

#include "paceline/error.hpp"
#include "text/chat_template.hpp"

#include <string>

namespace paceline::models {

/// The template that a file is. Errors name the file; those of the template's own, when it renders
/// a conversation, do not: clients of a server see them.
Result<text::ChatTemplate> read_chat_template(const std::string& path,
                                              text::ChatTemplate::Variables variables);
/// The same of a template that stands in a file among other things.
Result<text::ChatTemplate> parse_chat_template(const std::string& path, const std::string& source,
                                               text::ChatTemplate::Variables variables);

} // namespace paceline::models
