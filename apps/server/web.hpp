// The page that a browser gets from the server, and the files it is made of.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/service.hpp"

#include <span>
#include <string_view>

namespace paceline::apps::serve {

/// A file of apps/server/web, as the program has it inside.
struct WebFile {
  std::string_view name;    ///< "style.css"
  std::string_view hash;    ///< Hexadecimal, of the content.
  std::string_view content; ///< UTF-8 text.
};

/// Returns all files of the page. The build makes this function of the folder.
std::span<const WebFile> web_files();

/// Answers GET / with the page, and GET /web/NAME with a file of it.
boost::asio::awaitable<void> web_page(Service& service, Exchange& exchange);
boost::asio::awaitable<void> web_file(Service& service, Exchange& exchange);

} // namespace paceline::apps::serve
