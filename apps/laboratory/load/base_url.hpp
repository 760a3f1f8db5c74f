// Where a server is.
#pragma once

#include "paceline/error.hpp"

#include <cstdint>
#include <string>

namespace paceline::apps::load {

struct BaseUrl {
  bool tls = false;
  std::string host;
  std::uint16_t port = 80;
  std::string path; ///< Before "/v1/..."; empty, or "/some/where".

  /// "http://127.0.0.1:8000", as errors name it.
  std::string text() const;
};

/// "http://host:port", "https://host/some/where"; a "/v1" at its end, with which OpenAI's clients
/// write it, does not count.
Result<BaseUrl> parse_base_url(const std::string& text);

} // namespace paceline::apps::load
