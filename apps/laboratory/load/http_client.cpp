#include "apps/laboratory/load/http_client.hpp"

#include "apps/laboratory/load/http_connection.hpp"
#include "base/localhost.hpp"
#include "paceline/version.hpp"

#include <boost/asio/ssl/error.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>
#include <fmt/format.h>

namespace paceline::apps::load {
namespace asio = boost::asio;
namespace http = boost::beast::http;

HttpClient::HttpClient(asio::io_context& io, HttpOptions options)
    : io_(io), options_(std::move(options)) {}

HttpClient::~HttpClient() = default;

Result<void> HttpClient::open() {
  const BaseUrl& url = options_.url;
  boost::system::error_code wrong;
  const auto here = base::localhost(url.host, std::uint16_t(url.port));
  addresses_ =
      here ? *here
           : asio::ip::tcp::resolver(io_).resolve(url.host, std::to_string(url.port), wrong);
  if (wrong)
    return fail(ErrorCode::unavailable,
                fmt::format("there is no host {} ({})", url.host, wrong.message()),
                "check --base-url");
  if (!url.tls)
    return {};
  trust_ = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  if (options_.tls_authorities.empty())
    trust_->set_default_verify_paths(wrong);
  else
    trust_->load_verify_file(options_.tls_authorities, wrong);
  if (wrong)
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot read the authorities in {} ({})", options_.tls_authorities,
                            wrong.message()),
                "give a PEM file that this user may read");
  return {};
}

asio::awaitable<Result<std::unique_ptr<HttpConnection>>> HttpClient::connect() {
  auto connection = std::make_unique<HttpConnection>(io_, trust_.get());
  busy_.insert(connection.get());
  const auto failed = co_await connection->open(options_.url.host, addresses_);
  busy_.erase(connection.get());
  const bool distrusted = failed.category() == asio::error::get_ssl_category();
  if (failed)
    co_return fail(ErrorCode::unavailable,
                   fmt::format("cannot connect to {} ({})", options_.url.text(), failed.message()),
                   distrusted ? "give the authority that vouches for the server with --tls-ca"
                              : "check --base-url, and that the server runs");
  co_return std::move(connection);
}

/// Asks on this connection. begun: set once something of an answer came. reusable: set if the
/// connection is good for more requests.
asio::awaitable<Result<unsigned>> HttpClient::ask_on(HttpConnection& connection, const Ask& what,
                                                     const Take& take, bool& begun,
                                                     bool& reusable) {
  http::request<http::string_body> request(http::string_to_verb(what.method),
                                           options_.url.path + what.path, 11, what.body);
  request.set(http::field::host, options_.url.host);
  request.set(http::field::user_agent, "paceline-bench/" PACELINE_VERSION);
  if (!what.body.empty())
    request.set(http::field::content_type, "application/json");
  if (!options_.api_key.empty())
    request.set(http::field::authorization, "Bearer " + options_.api_key);
  request.prepare_payload();
  HttpConnection::Parser parser;
  parser.body_limit(boost::none);
  boost::system::error_code failed = co_await connection.write(request);
  if (!failed)
    failed = co_await connection.read_head(parser);
  begun = parser.got_some();
  const unsigned status = failed ? 0 : parser.get().result_int();
  while (!failed && !parser.is_done()) {
    const auto piece = co_await connection.read_piece(parser, failed);
    if (!piece.empty())
      take(status, piece);
  }
  if (failed)
    co_return fail(ErrorCode::unavailable,
                   status == 0 ? fmt::format("no answer came ({})", failed.message())
                               : fmt::format("the answer broke off ({})", failed.message()));
  reusable = parser.keep_alive();
  co_return status;
}

asio::awaitable<Result<unsigned>> HttpClient::ask(Ask what, Take take) {
  for (;;) {
    const bool used = !idle_.empty();
    std::unique_ptr<HttpConnection> connection;
    if (used) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    } else {
      auto opened = co_await connect();
      if (!opened)
        co_return tl::unexpected(opened.error());
      connection = std::move(*opened);
    }
    bool begun = false;
    bool reusable = false;
    busy_.insert(connection.get());
    auto answer = co_await ask_on(*connection, what, take, begun, reusable);
    busy_.erase(connection.get());
    if (reusable)
      idle_.push_back(std::move(connection));
    if (answer || begun || !used) // Otherwise the server had closed the connection in the meantime.
      co_return answer;
  }
}

void HttpClient::close() {
  idle_.clear();
  for (HttpConnection* connection : busy_)
    connection->close();
}

} // namespace paceline::apps::load
