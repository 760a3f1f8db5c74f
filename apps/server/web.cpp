#include "apps/server/web.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

/// The page runs its own scripts alone and speaks with this server alone, and its scripts cannot
/// make elements of text: what a model writes stays text, whatever it writes.
constexpr const char* security_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view type_of(std::string_view name) {
  constexpr std::array types = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{".html", "text/html; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".svg", "image/svg+xml"}});
  for (const auto& [ending, type] : types)
    if (name.ends_with(ending))
      return type;
  return "text/plain; charset=utf-8";
}

/// Whether the client has this version of the file already (RFC 9110, section 13.1.2).
bool has_already(std::string_view if_none_match, std::string_view tag) {
  return if_none_match == "*" || if_none_match.find(tag) != std::string_view::npos;
}

asio::awaitable<void> send_file(Exchange& exchange, const WebFile& file) {
  const std::string tag = fmt::format("\"{}\"", file.hash);
  const bool known = has_already(exchange.request().if_none_match, tag);
  HttpResponse response{.status = known ? 304U : 200U,
                        .body = known ? std::string() : std::string(file.content),
                        .content_type = std::string(type_of(file.name)),
                        .headers = {{"ETag", tag},
                                    {"Cache-Control", "no-cache"},
                                    {"Content-Security-Policy", security_policy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Opener-Policy", "same-origin"},
                                    {"Cross-Origin-Resource-Policy", "same-origin"}}};
  co_await exchange.send(std::move(response));
}

asio::awaitable<void> send_named(Exchange& exchange, std::string_view name) {
  const auto files = web_files();
  const auto found = std::ranges::find(files, name, &WebFile::name);
  if (found != files.end())
    co_return co_await send_file(exchange, *found);
  const ApiError none{.status = 404,
                      .message = fmt::format("the page has no file {}: ask for /", name),
                      .code = "not_found"};
  co_await exchange.send(none);
}

} // namespace

asio::awaitable<void> web_page(Service&, Exchange& exchange) {
  return send_named(exchange, "index.html");
}

asio::awaitable<void> web_file(Service&, Exchange& exchange) {
  return send_named(
      exchange, std::string_view(exchange.request().path).substr(std::string_view("/web/").size()));
}

} // namespace paceline::apps::serve
