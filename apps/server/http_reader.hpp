// Reading what a client sends over HTTP, within bounds: heads, bodies with their framing, and what
// is sent ahead.
#pragma once

#include "apps/server/request_memory.hpp"
#include "apps/server/transport.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/json/memory_resource.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace paceline::apps::serve {

/// Reads one request after another. This class drives Beast's parser itself and does not use
/// async_read: an exception of the parser would leave a handler of Asio's there, and end the
/// server. Threads: the server's only.
class HttpReader {
public:
  using Allocator = boost::json::polymorphic_allocator<char>;
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body, Allocator>;
  template <class T>
  using Await = boost::asio::awaitable<T>;
  using ErrorCode = boost::system::error_code;

  /// transport, memory: must outlive this.
  HttpReader(Transport& transport, RequestMemory& memory);

  /// Waits until some bytes of the next request are there. False: the client has left.
  Await<bool> await_request();
  /// Makes the parser of that request; what it keeps of the head counts as the request's memory.
  void begin(std::optional<Parser>& parser, std::uint64_t max_body);
  /// Reads the request line and the headers.
  Await<ErrorCode> read_head(Parser& parser);
  /// Reads until the parser's piece of the body is full (http::error::need_buffer) or all has come.
  Await<ErrorCode> read_body(Parser& parser);
  /// Reads bytes of the next request that the client sends meanwhile. An error is the transport's.
  Await<ErrorCode> read_ahead();
  /// Forgets what was read and not taken, when nothing more is answered.
  void drop();
  /// Whether `read_ahead` has no room for more.
  bool full() const { return !has_room_; }

private:
  using Buffer = boost::beast::basic_flat_buffer<Allocator>;

  Await<ErrorCode> read_some(Parser& parser, std::size_t bytes);
  ErrorCode parse(Parser& parser);
  bool worth_parsing(const Parser& parser) const;
  std::optional<boost::asio::mutable_buffer> room(std::size_t bytes);
  void count_extension(std::string_view extension, ErrorCode& failed);

  Transport& transport_;
  MemoryShare memory_;
  Buffer buffer_;                   ///< Bytes that were read and not taken.
  std::size_t extension_bytes_ = 0; ///< Size of the chunk extensions of the request in hand.
  bool has_room_ = true;
  std::function<void(std::uint64_t, boost::beast::string_view, ErrorCode&)> on_chunk_;
};

/// Returns what two servers in a row could read differently in a head that Beast accepts, or null.
const char* ambiguity(const HttpReader::Parser::value_type& head);

} // namespace paceline::apps::serve
