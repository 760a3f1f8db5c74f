#include "apps/server/text_places.hpp"

#include <algorithm>

namespace paceline::apps::serve {
namespace {

bool goes_on(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u;
}

std::size_t characters(std::string_view text) {
  return std::size_t(std::count_if(text.begin(), text.end(), [](char c) { return !goes_on(c); }));
}

} // namespace

std::size_t TextPlaces::next(std::string_view bytes) {
  if (bytes.empty())
    return characters_;
  const bool breaks_off = inside_ && !goes_on(bytes.front()); // The begun one becomes U+FFFD.
  const std::size_t place = characters_ + (breaks_off ? 1 : 0);
  characters_ += characters(stream_.feed(bytes));
  text::Utf8Stream rest = stream_;
  inside_ = !rest.finish().empty();
  return place;
}

void TextPlaces::go_behind(std::string_view text) {
  *this = TextPlaces();
  characters_ = characters(text);
}

} // namespace paceline::apps::serve
