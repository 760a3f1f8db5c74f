// Bytes as valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace paceline::text {

/// Bytes to valid UTF-8 as they come: holds back an incomplete character, and puts U+FFFD for each
/// maximal invalid part (Unicode's recommended practice), so that the pieces together equal
/// `sanitize` of the whole.
class Utf8Stream {
public:
  std::string feed(std::string_view bytes);
  std::string finish(); ///< An incomplete character becomes U+FFFD.

private:
  std::string held_;
};
std::string sanitize_utf8(std::string_view bytes);

} // namespace paceline::text
