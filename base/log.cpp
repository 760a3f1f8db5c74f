#include "base/log.hpp"

#include <cstdio>

namespace paceline::base {

void Log::write(LogLevel level, const std::string& message) const noexcept {
  if (!function_) {
    std::fprintf(stderr, "paceline: %s\n", message.c_str());
    return;
  }
  try {
    function_(level, message);
  } catch (...) { // dropped, as from functions given to streams
  }
}

} // namespace paceline::base
