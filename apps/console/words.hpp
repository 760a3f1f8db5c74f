// Names that Tab completes, in the chat and in a shell.
#pragma once

#include <string>
#include <vector>

namespace paceline::apps {

/// What may stand for a model besides folders: demo, scripted, and what the local Hugging Face
/// cache holds.
std::vector<std::string> model_words();
/// What may stand for a draft: those, look-ups, none, and the target itself in each format.
std::vector<std::string> draft_words();
/// The microscaling formats of weights.
std::vector<std::string> weight_format_words();

} // namespace paceline::apps
