#include "apps/server/http_reader.hpp"

#include "apps/console/limits.hpp"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <new>
#include <stdexcept>
#include <tuple>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t head_read_bytes = 4096;
constexpr std::size_t body_read_bytes = std::size_t(64) << 10;
/// The bytes of "0\r\n\r\n": a chunked body has at least so many left wherever a chunk may begin.
constexpr std::size_t last_chunk_bytes = 5;

error_code no_memory() {
  return make_error_code(boost::system::errc::not_enough_memory);
}

} // namespace

HttpReader::HttpReader(Transport& transport, RequestMemory& memory)
    : transport_(transport), memory_(memory, limits::head_free_bytes),
      buffer_(limits::ahead_bytes, Allocator(&memory_)),
      on_chunk_([this](std::uint64_t, boost::beast::string_view extension, error_code& failed) {
        count_extension({extension.data(), extension.size()}, failed);
      }) {}

asio::awaitable<bool> HttpReader::await_request() {
  has_room_ = true;
  if (buffer_.size() > 0)
    co_return true;
  buffer_.shrink_to_fit(); // The last request may have needed much more.
  co_return !co_await read_ahead() && buffer_.size() > 0;
}

void HttpReader::begin(std::optional<Parser>& parser, std::uint64_t max_body) {
  extension_bytes_ = 0;
  parser.emplace(std::piecewise_construct, std::make_tuple(), std::make_tuple(Allocator(&memory_)));
  parser->header_limit(std::uint32_t(limits::header_bytes));
  parser->body_limit(max_body);
  parser->on_chunk_header(on_chunk_);
}

asio::awaitable<error_code> HttpReader::read_head(Parser& parser) {
  error_code failed;
  while (!failed && !parser.is_header_done())
    failed = co_await read_some(parser, head_read_bytes);
  co_return failed;
}

asio::awaitable<error_code> HttpReader::read_body(Parser& parser) {
  parser.eager(true);
  error_code failed;
  while (!failed && !parser.is_done())
    failed = co_await read_some(parser, body_read_bytes);
  co_return failed;
}

/// Gets as far as the parser can with the bytes that are there or, if they are not enough for
/// anything, with those that come next.
asio::awaitable<error_code> HttpReader::read_some(Parser& parser, std::size_t bytes) {
  for (;;) {
    if (worth_parsing(parser)) {
      const error_code failed = parse(parser);
      if (failed != http::error::need_more)
        co_return failed;
      if (buffer_.size() >= limits::header_bytes) // One line, or the trailers, are too long.
        co_return make_error_code(http::error::header_limit);
    }
    const auto into = room(bytes);
    if (!into)
      co_return no_memory();
    const auto [failed, count] = co_await transport_.async_read_some(*into, as_result);
    buffer_.commit(count);
    if (failed == asio::error::eof)
      co_return make_error_code(parser.got_some() ? http::error::partial_message
                                                  : http::error::end_of_stream);
    if (failed)
      co_return failed;
  }
}

/// Whether the parser may be shown the bytes: Beast asserts that it never gets the beginning of the
/// last chunk alone.
bool HttpReader::worth_parsing(const Parser& parser) const {
  const bool chunks = parser.is_header_done() && parser.chunked();
  return buffer_.size() >= (chunks ? last_chunk_bytes : 1);
}

error_code HttpReader::parse(Parser& parser) {
  try {
    error_code failed;
    buffer_.consume(parser.put(buffer_.cdata(), failed));
    return failed;
  } catch (const std::bad_alloc&) { // The bound over all connections is reached.
    return no_memory();
  } catch (const std::length_error&) { // A field's name or value is too long.
    return make_error_code(http::error::header_limit);
  }
}

void HttpReader::count_extension(std::string_view extension, error_code& failed) {
  extension_bytes_ += extension.size();
  failed = {};
  if (extension_bytes_ > limits::header_bytes)
    failed = make_error_code(http::error::header_limit);
}

asio::awaitable<error_code> HttpReader::read_ahead() {
  const auto into = room(head_read_bytes);
  has_room_ = into.has_value();
  if (!has_room_)
    co_return error_code();
  const auto [failed, count] = co_await transport_.async_read_some(*into, as_result);
  buffer_.commit(count); // A cancelled read may bring bytes of the next request, too.
  co_return failed;
}

void HttpReader::drop() {
  buffer_.clear();
  buffer_.shrink_to_fit();
}

/// Makes room behind the bytes that are there. None: the bound of one connection, or of all, is
/// reached.
std::optional<asio::mutable_buffer> HttpReader::room(std::size_t bytes) {
  const std::size_t free = buffer_.max_size() - buffer_.size();
  if (free == 0)
    return std::nullopt;
  try {
    return buffer_.prepare(std::min(bytes, free));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

const char* ambiguity(const HttpReader::Parser::value_type& head) {
  if (head.version() >= 11 && head.count(http::field::host) != 1)
    return "a request must have one Host";
  if (head.count(http::field::transfer_encoding) > 0 &&
      (head.version() < 11 || head.count(http::field::content_length) > 0 ||
       head.count(http::field::transfer_encoding) != 1 ||
       !boost::beast::iequals(head[http::field::transfer_encoding], "chunked")))
    return "Transfer-Encoding must be chunked, once, and without Content-Length";
  return nullptr;
}

} // namespace paceline::apps::serve
