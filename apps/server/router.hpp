// Which path leads where.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

#include <string>
#include <string_view>

namespace paceline::apps::serve {

/// One endpoint. Throws nothing that matters: what escapes is answered 500.
struct Route {
  std::string_view method;
  std::string_view path;      ///< One that ends in / stands for all that begin so.
  bool for_everybody = false; ///< Without a key, and while loading and draining.
  bool for_admin = false;     ///< With an admin's key.
  bool long_running = false;  ///< Worth watching whether the client is still there.
  boost::asio::awaitable<void> (*answer)(Service&, Exchange&) = nullptr;
};

/// The route, or 404, or 405 (`allowed`: then the methods there are).
ApiResult<const Route*> find_route(std::string_view method, std::string_view path,
                                   std::string& allowed);

/// "/v1/models/a%2Fb?x=1" -> "/v1/models/a/b". Empty: no path of this server can be meant.
std::string decode_target(std::string_view target);

} // namespace paceline::apps::serve
