// Whole answers of a server, one at a time or many at once.
#pragma once

#include "apps/laboratory/load/http_client.hpp"
#include "paceline/request.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <functional>

namespace paceline::apps::load {

/// Threads: one.
class ServerClient {
public:
  using Ask = HttpClient::Ask;
  struct Reply {
    unsigned status = 0;
    std::string body; ///< As limits::answer_bytes cut it.
  };

  explicit ServerClient(HttpOptions options);
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  /// Finds the host; then requests may come. Errors: there is none.
  Result<void> open() { return client_.open(); }
  boost::asio::io_context& io() { return io_; }
  HttpClient& http() { return client_; }
  const BaseUrl& url() const { return client_.url(); }

  /// How long the client of a request waits, by its number.
  using Patience = std::function<std::chrono::milliseconds(std::size_t)>;

  /// Sends a request. Errors: no whole answer came.
  boost::asio::awaitable<Result<Reply>> fetch(Ask what);
  Result<Reply> fetch_now(Ask what);
  /// Sends all, `at_once` of them under way. Returns their answers in the same order.
  std::vector<Result<Reply>> fetch_all(const std::vector<Ask>& asks, int at_once);
  /// Sends each on a connection of its own, all at once, and breaks that as soon as anything of its
  /// answer has come, or after its patience.
  void break_off(const std::vector<Ask>& asks, const Patience& patience);

  /// Returns the name of the first of its models. Errors: it names none.
  Result<std::string> first_model();
  /// Returns the ids of a text by the server's /tokenize (ours, vLLM's or llama.cpp's); empty if
  /// the server has none.
  std::vector<TokenId> tokenize(const std::string& model, const std::string& text);

private:
  boost::asio::awaitable<void> break_one(Ask what, std::chrono::milliseconds patience);

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  HttpOptions options_;
  HttpClient client_;
};

/// Returns a text such as "HTTP 429: the queue is full".
std::string refusal_text(unsigned status, std::string_view body);

} // namespace paceline::apps::load
