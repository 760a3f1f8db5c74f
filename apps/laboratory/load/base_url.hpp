// The address of a server.
#pragma once

#include "paceline/error.hpp"

#include <cstdint>
#include <string>

namespace paceline::apps::load {

struct BaseUrl {
  bool tls = false;
  std::string host;
  std::uint16_t port = 80;
  std::string path; ///< Path before "/v1/...": empty, or "/some/where".

  /// Returns it as errors name it, such as "http://127.0.0.1:8000".
  std::string text() const;
};

/// Reads "http://host:port" or "https://host/some/where"; a "/v1" at its end, with which OpenAI's
/// clients write it, is ignored.
Result<BaseUrl> parse_base_url(const std::string& text);

} // namespace paceline::apps::load
