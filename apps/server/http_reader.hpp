// What a client sends over HTTP, as it comes and bounded: heads, bodies with their framing, and
// what is sent ahead.
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

/// Reads one request after another. Beast's parser is driven from here and not by its async_read:
/// what the parser throws would leave a handler of Asio's there, and end the server.
/// Threads: the server's only.
class HttpReader {
public:
  using Allocator = boost::json::polymorphic_allocator<char>;
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body, Allocator>;
  template <class T>
  using Await = boost::asio::awaitable<T>;
  using ErrorCode = boost::system::error_code;

  /// transport, memory: must outlive this.
  HttpReader(Transport& transport, RequestMemory& memory);

  /// Waits until there is something of the next request. False: the client has left.
  Await<bool> await_request();
  /// For that request; what it keeps of the head counts.
  void begin(std::optional<Parser>& parser, std::uint64_t max_body);
  /// The request line and the headers.
  Await<ErrorCode> read_head(Parser& parser);
  /// Until the parser's piece of the body is full (http::error::need_buffer) or all has come.
  Await<ErrorCode> read_body(Parser& parser);
  /// Of what the client sends meanwhile, for the next request. An error: of the transport.
  Await<ErrorCode> read_ahead();
  /// Forgets what was read and not taken: nothing more is answered.
  void drop();
  /// There is no room for more of that.
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
  Buffer buffer_;                   ///< Read, not taken.
  std::size_t extension_bytes_ = 0; ///< Of the request in hand.
  bool has_room_ = true;
  std::function<void(std::uint64_t, boost::beast::string_view, ErrorCode&)> on_chunk_;
};

} // namespace paceline::apps::serve
