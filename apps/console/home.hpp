// The user's folder in names of files.
#pragma once

#include <string>

namespace paceline::apps {

/// "~" and "~/..." as a shell would give them, where none has seen the name: in a chat's commands
/// and in files.
std::string with_home(std::string path);

} // namespace paceline::apps
