// Names of this machine that need no name server. This header needs Boost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::base {

/// Recognises "localhost" and names that end in ".localhost" (RFC 6761, section 6.3), which a
/// system may not know (a container without /etc/hosts).
inline bool is_localhost(std::string host) {
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  if (host.ends_with('.'))
    host.pop_back();
  return host == "localhost" || host.ends_with(".localhost");
}

/// Returns the addresses of such a name, IPv6's only if this machine has IPv6. None: the host is
/// another one, and its name has to be resolved.
inline std::optional<boost::asio::ip::tcp::resolver::results_type>
localhost(const std::string& host, std::uint16_t port) {
  using boost::asio::ip::tcp;
  if (!is_localhost(host))
    return std::nullopt;
  std::vector<tcp::endpoint> ends;
  boost::asio::io_context io;
  boost::system::error_code absent;
  tcp::acceptor probe(io);
  const tcp::endpoint six(boost::asio::ip::address_v6::loopback(), 0);
  probe.open(six.protocol(), absent);
  if (!absent)
    probe.bind(six, absent);
  if (!absent)
    ends.emplace_back(six.address(), port);
  ends.emplace_back(boost::asio::ip::address_v4::loopback(), port);
  return tcp::resolver::results_type::create(ends.begin(), ends.end(), host, std::to_string(port));
}

} // namespace paceline::base
