// The user's home folder in names of files.
#pragma once

#include <string>

namespace paceline::apps {

/// Expands "~" and "~/..." as a shell would, for names that no shell has seen: in a chat's commands
/// and in files.
std::string with_home(std::string path);

} // namespace paceline::apps
