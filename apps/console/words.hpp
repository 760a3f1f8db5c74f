// Names that Tab completes, in the chat and in a shell.
#pragma once

#include <string>
#include <vector>

namespace paceline::apps {

/// Returns the names that a model may have besides folders: demo, scripted, and the models that lie
/// here under names.
std::vector<std::string> model_words();
/// Returns the names that a draft may have: those, look-ups, none, and the target itself in each
/// format.
std::vector<std::string> draft_words();
/// Returns the names of the microscaling formats of weights.
std::vector<std::string> weight_format_words();

} // namespace paceline::apps
