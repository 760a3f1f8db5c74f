// What a checkpoint folder says besides its tensors.
#pragma once

#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <memory>
#include <string>

namespace paceline::models {

/// `folder`/tokenizer.json. "scripted:..." names its own (synthetic/scripted.hpp).
Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const std::string& folder);

/// A folder's chat_template.jinja, chat_template.json, or what its tokenizer_config.json says.
/// With none of them: the plain format, which puts `opening` before the text.
Result<text::ChatTemplate> load_chat_template(const std::string& folder,
                                              const std::string& opening);

} // namespace paceline::models
