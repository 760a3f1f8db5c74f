// A client's connection, which reads requests one after another and has them answered.
#pragma once

#include "apps/server/exchange.hpp"
#include "apps/server/http_reader.hpp"
#include "apps/server/router.hpp"
#include "apps/server/service.hpp"
#include "apps/server/transport.hpp"
#include "apps/server/watchdog.hpp"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <memory>
#include <optional>

namespace paceline::apps::serve {

/// One connection over HTTP. Threads: the server's only.
class Connection final : public Exchange {
public:
  /// service, tls (null: plain TCP): must outlive this.
  Connection(Transport::Socket socket, boost::asio::ssl::context* tls, Service& service);
  ~Connection() override;

  /// Serves requests until the client leaves, or something is wrong.
  boost::asio::awaitable<void> run();
  /// Tells the client that this is one connection too many, and ends.
  boost::asio::awaitable<void> turn_away();
  /// Ends `run` soon, whatever it waits for.
  void close();

  boost::asio::awaitable<void> send(HttpResponse response) override;
  using Exchange::send;
  boost::asio::awaitable<bool> begin_parts(HttpResponse head) override;
  boost::asio::awaitable<bool> write_part(std::string bytes) override;
  boost::asio::awaitable<void> end_parts() override;
  void break_off() override { keep_alive_ = false; }
  bool tells_ends() const override { return chunked_; }
  MemoryShare& memory() override { return *memory_; }

private:
  using Head = boost::beast::http::response<boost::beast::http::empty_body>;
  using Parser = HttpReader::Parser;

  boost::asio::awaitable<bool> await_request();
  boost::asio::awaitable<void> serve_request();
  boost::asio::awaitable<void> serve(Parser& parser);
  boost::asio::awaitable<bool> read_head(Parser& parser);
  boost::asio::awaitable<bool> read_body(Parser& parser, std::size_t most);
  bool make_room(std::size_t more);
  boost::asio::awaitable<bool> answer_preflight(const Parser& parser);
  Head head_of(const HttpResponse& response) const;
  boost::asio::awaitable<void> refuse_reading(boost::system::error_code why);
  boost::asio::awaitable<void> answer(const Route& route);
  boost::asio::awaitable<void> call(const Route& route);
  boost::asio::awaitable<void> watch_client();
  boost::asio::awaitable<bool> write(std::string bytes);
  boost::asio::awaitable<void> linger();
  void take_head(const Parser& parser);
  std::optional<ApiError> coding_error(const Parser& parser) const;
  std::optional<ApiError> route_error(const Route& route, std::string_view authorization) const;
  void log_request();

  Transport transport_;
  Service* service_;
  HttpReader reader_;
  std::shared_ptr<Watchdog> watchdog_;

  // These fields are of the request in hand.
  std::optional<MemoryShare> memory_; ///< Counts what `request_` and its endpoint hold.
  std::string origin_;                ///< Origin of the page that asks, if it may read the answer.
  bool keep_alive_ = true;
  bool chunked_ = true; ///< HTTP/1.1 or newer: a stream's end can be told from what follows.
  unsigned status_ = 0; ///< Status of its answer; 0: none yet.
  std::size_t written_ = 0;
};

} // namespace paceline::apps::serve
