#include "apps/console/home.hpp"

#include <cstdlib>

namespace paceline::apps {

std::string with_home(std::string path) {
  const char* home = std::getenv("HOME");
  if (home && *home && (path == "~" || path.starts_with("~/")))
    path.replace(0, 1, home);
  return path;
}

} // namespace paceline::apps
