// A client for many requests at a time to one server over HTTP/1.1, with or without TLS.
#pragma once

#include "apps/laboratory/load/base_url.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::load {

class HttpConnection;

struct HttpOptions {
  BaseUrl url;
  std::string api_key;         ///< Empty: none.
  std::string tls_authorities; ///< PEM file of the authorities to trust; empty: the system's.
};

/// A client that uses its connections again. Threads: one, the io_context's.
class HttpClient {
public:
  /// io: must outlive this.
  HttpClient(boost::asio::io_context& io, HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Looks up the host. Errors: it has no address, or the authorities cannot be read.
  Result<void> open();

  struct Ask {
    std::string method;
    std::string path; ///< Path behind the base URL's own.
    std::string body = {};
  };
  /// Called with the answer's status and a piece of its body, as it comes.
  using Take = std::function<void(unsigned status, std::string_view piece)>;
  /// Sends a request, and returns the status when the answer is whole. Errors: why it is not.
  boost::asio::awaitable<Result<unsigned>> ask(Ask what, Take take);

  /// Breaks off all requests.
  void close();
  const BaseUrl& url() const { return options_.url; }

private:
  boost::asio::awaitable<Result<unsigned>> ask_on(HttpConnection& connection, const Ask& what,
                                                  const Take& take, bool& begun, bool& reusable);
  boost::asio::awaitable<Result<std::unique_ptr<HttpConnection>>> connect();

  boost::asio::io_context& io_;
  HttpOptions options_;
  std::unique_ptr<boost::asio::ssl::context> trust_; ///< Null without TLS.
  boost::asio::ip::tcp::resolver::results_type addresses_;
  std::vector<std::unique_ptr<HttpConnection>> idle_;
  std::set<HttpConnection*> busy_;
};

} // namespace paceline::apps::load
