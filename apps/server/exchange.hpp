// One HTTP request and its answer, as endpoints see them.
#pragma once

#include "apps/server/errors.hpp"
#include "apps/server/keys.hpp"
#include "apps/server/log.hpp"
#include "apps/server/request_memory.hpp"

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::apps::serve {

using Clock = std::chrono::steady_clock;

/// Returns a client's own name of a request, if that may stand in a log and a header; else one of
/// ours.
std::string request_id(std::string_view given);

struct HttpRequest {
  std::string id; ///< The client's X-Request-Id, or one of ours.
  std::string method;
  std::string path; ///< Decoded path without the query.
  std::string body;
  std::string if_none_match; ///< The header field of that name.
  std::string peer;          ///< "127.0.0.1:40312"
  std::string draft_scope;   ///< The scope of its drafts in the engine (Request::draft_scope).
  std::string cache_scope;   ///< The scope of its cached prefixes (Request::cache_salt).
  Holder client;             ///< The holder whose share it counts against, if there are keys.
  Clock::time_point arrived;
};

struct HttpResponse {
  unsigned status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// A request and the way to answer it. Threads: the server's only.
class Exchange {
public:
  virtual ~Exchange() = default;
  const HttpRequest& request() const { return request_; }

  /// Moves the body out of the request.
  std::string take_body() { return std::exchange(request_.body, {}); }
  /// Returns the share that counts what this request keeps of the client's data.
  virtual MemoryShare& memory() = 0;

  /// Answers in one piece.
  virtual boost::asio::awaitable<void> send(HttpResponse response) = 0;
  boost::asio::awaitable<void> send(const ApiError& error);
  boost::asio::awaitable<void> send_json(const boost::json::object& object, unsigned status = 200);

  /// Answers in parts: begin, then any number of writes, then end. A write waits for the client to
  /// take it; false: the client has gone or takes nothing. head: without a body.
  virtual boost::asio::awaitable<bool> begin_parts(HttpResponse head) = 0;
  virtual boost::asio::awaitable<bool> write_part(std::string bytes) = 0;
  virtual boost::asio::awaitable<void> end_parts() = 0;
  /// Ends the parts like `end_parts`, but so that nobody takes for whole what has come.
  virtual void break_off() = 0;
  /// Whether the client can tell `end_parts` from `break_off`; false with HTTP/1.0.
  virtual bool tells_ends() const = 0;
  /// Begins an answer in parts that are server-sent events.
  boost::asio::awaitable<bool> begin_events();

  /// Registers `action`, which is called once when the client has gone; at once if it has.
  void on_gone(std::function<void()> action);
  bool gone() const { return gone_; }

  /// Adds a field to the request's line in the log.
  template <class T>
  void remark(std::string_view name, const T& value) {
    remarks_[name] = boost::json::value(value);
  }

protected:
  void client_gone();

  HttpRequest request_;
  LogFields remarks_;

private:
  bool gone_ = false;
  std::function<void()> on_gone_;
};

} // namespace paceline::apps::serve
