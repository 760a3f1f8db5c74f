// Converts bytes to valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace paceline::text {

/// Converts bytes to valid UTF-8 as they come. It holds back an incomplete character, and puts
/// U+FFFD for each maximal invalid part (Unicode's recommended practice), so that the pieces
/// together equal `sanitize_utf8` of the whole.
class Utf8Stream {
public:
  std::string feed(std::string_view bytes);
  std::string finish(); ///< Replaces an incomplete character by U+FFFD.

private:
  std::string held_;
};
std::string sanitize_utf8(std::string_view bytes);

} // namespace paceline::text
