// What a checkpoint says of text, for an engine and for who has none (paceline/tokenizer.hpp).
#pragma once

#include "models/checkpoint/source.hpp"

#include <ctime>

namespace paceline::actors {

/// The checkpoint's own, or the plain format behind what it puts before a text.
Result<text::ChatTemplate> chat_template_of(const models::CheckpointSource& source,
                                            const text::Tokenizer& tokenizer);

/// What a template that tells the date is told.
std::tm local_time();

} // namespace paceline::actors
