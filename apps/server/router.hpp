// The paths of the server and their endpoints.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

#include <string>
#include <string_view>

namespace paceline::apps::serve {

/// One endpoint. Its exceptions are safe: whatever escapes is answered 500.
struct Route {
  std::string_view method;
  std::string_view path;      ///< A path that ends in / stands for all that begin so.
  bool for_everybody = false; ///< Needs no key, and answers while loading and draining.
  bool for_admin = false;     ///< Needs an admin's key.
  bool for_page = false;      ///< Part of the page: not there with --no-web.
  bool long_running = false;  ///< Takes so long that it watches whether the client is still there.
  boost::asio::awaitable<void> (*answer)(Service&, Exchange&) = nullptr;
};

/// Returns the route, or 404, or 405 (`allowed`: then the methods that the path has).
ApiResult<const Route*> find_route(std::string_view method, std::string_view path,
                                   std::string& allowed);

/// Decodes "/v1/models/a%2Fb?x=1" to "/v1/models/a/b". Empty: no path of this server can be meant.
std::string decode_target(std::string_view target);

} // namespace paceline::apps::serve
