// A checkpoint's handling of text, for an engine and for callers without one
// (paceline/tokenizer.hpp).
#pragma once

#include "models/checkpoint/source.hpp"

#include <ctime>

namespace paceline::actors {

/// Returns the checkpoint's own template, or the plain format behind the tokens that the checkpoint
/// puts before a text.
Result<text::ChatTemplate> chat_template_of(const models::CheckpointSource& source,
                                            const text::Tokenizer& tokenizer);

/// Returns the time for templates that tell the date.
std::tm local_time();

} // namespace paceline::actors
