#include "apps/server/loopback.hpp"

#include <boost/algorithm/string/predicate.hpp>
#include <boost/asio/ip/address.hpp>

namespace paceline::apps::serve {

bool is_loopback(const std::string& host) {
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(host, no_address);
  if (no_address)
    return boost::iequals(host, "localhost") || boost::iends_with(host, ".localhost");
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
        .is_loopback();
  return address.is_loopback();
}

} // namespace paceline::apps::serve
