#include "apps/laboratory/load/base_url.hpp"

#include "base/parse_number.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace paceline::apps::load {
namespace {

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix))
    return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Removes ":port" at the end, if there is one. False: what follows the colon is no port.
bool take_port(std::string_view& place, std::uint16_t& port) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || place.ends_with(']'))
    return true;
  port = base::parse_number<std::uint16_t>(place.substr(colon + 1)).value_or(0);
  place = place.substr(0, colon);
  return port > 0;
}

} // namespace

std::string BaseUrl::text() const {
  const bool bare = host.find(':') == std::string::npos;
  return fmt::format("{}://{}:{}{}", tls ? "https" : "http", bare ? host : "[" + host + "]", port,
                     path);
}

Result<BaseUrl> parse_base_url(const std::string& text) {
  const auto wrong = [&text] {
    return fail(ErrorCode::invalid_argument, "'" + text + "' is no address of a server",
                "give one such as http://127.0.0.1:8000");
  };
  std::string_view rest = text;
  BaseUrl url;
  url.tls = take_prefix(rest, "https://");
  if (!url.tls && !take_prefix(rest, "http://"))
    return wrong();
  url.port = url.tls ? 443 : 80;
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view place = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/'))
    path.remove_suffix(1);
  if (path.ends_with("/v1"))
    path.remove_suffix(3);
  if (!take_port(place, url.port) || path.find_first_of(" ?#\r\n") != std::string_view::npos)
    return wrong();
  if (place.starts_with('[') && place.ends_with(']'))
    place = place.substr(1, place.size() - 2);
  if (place.empty() || place.find_first_of(" @\r\n[]") != std::string_view::npos)
    return wrong();
  url.host = place;
  url.path = path;
  return url;
}

} // namespace paceline::apps::load
