#include "apps/server/connection.hpp"

#include "paceline/version.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>
#include <cmath>
#include <ctime>
#include <exception>
#include <fmt/format.h>
#include <sstream>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t linger_read_bytes = 4096;
constexpr std::size_t body_read_bytes = std::size_t(64) << 10;

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

std::string bytes_of_head(const http::response<http::empty_body>& head) {
  std::ostringstream out;
  out << head.base();
  return std::move(out).str();
}

ApiError unreadable(error_code why, bool late) {
  if (late)
    return {.status = 408,
            .message = "the request did not come in time: send it at once",
            .code = "request_timeout"};
  if (why == http::error::body_limit)
    return {.status = 413,
            .message = "the body is larger than this server takes: send a smaller one",
            .code = "body_too_large"};
  if (why == http::error::header_limit || why == http::error::buffer_overflow)
    return {.status = 431, .message = "the headers are too large", .code = "headers_too_large"};
  if (why == boost::system::errc::not_enough_memory)
    return no_request_memory();
  return {.status = 400,
          .message = "this is not HTTP as RFC 9112 has it (" + why.message() + ")",
          .code = "bad_request"};
}

ApiError no_such_key() {
  return {.status = 401,
          .message = "there is no such API key: send yours as Authorization: Bearer KEY",
          .code = "invalid_api_key"};
}

ApiError unavailable(Service::State state) {
  if (state == Service::State::draining)
    return shutting_down();
  return {.status = 503,
          .message = "the model is being loaded: try again in a moment",
          .code = "loading",
          .retry_after_seconds = 1};
}

/// Makes an error with one more header. header: empty: none.
HttpResponse refusal(const ApiError& error, std::string header, std::string value) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (!header.empty())
    response.headers.emplace_back(std::move(header), std::move(value));
  return response;
}

/// Whether a page of this origin may ask.
bool is_allowed(std::string_view origin, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
    return one == "*" || beast::iequals(one, origin);
  });
}

/// Returns the time in the format of RFC 9110, section 5.6.7.
std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 40> text{}; // The program runs in the C locale.
  return {text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

/// Whether the client has gone, so that there is nobody to be told anything.
bool is_end(error_code why) {
  if (why == boost::system::errc::not_enough_memory)
    return false;
  return why == http::error::end_of_stream || why == http::error::partial_message ||
         why.category() != make_error_code(http::error::bad_method).category();
}

} // namespace

Connection::Connection(Transport::Socket socket, asio::ssl::context* tls, Service& service)
    : transport_(std::move(socket), tls), service_(&service), reader_(transport_, service.memory()),
      watchdog_(
          std::make_shared<Watchdog>(transport_.get_executor(), [this] { transport_.cancel(); })) {
  request_.peer = transport_.peer();
  ++service.connections;
}

Connection::~Connection() {
  take_body(); // The body goes before its share of the memory.
  watchdog_->stop();
  --service_->connections;
}

void Connection::close() {
  transport_.close();
}

asio::awaitable<void> Connection::run() {
  transport_.set_options(service_->settings().write_timeout);
  watchdog_->set(service_->settings().receive_timeout);
  const bool welcome = co_await transport_.handshake();
  if (!welcome)
    co_return;
  for (bool asked = co_await await_request(); asked; asked = co_await await_request()) {
    co_await serve_request();
    take_body();
    memory_.reset();
  }
  co_await linger();
}

asio::awaitable<void> Connection::turn_away() {
  watchdog_->set(limits::linger_time);
  const bool welcome = co_await transport_.handshake();
  if (!welcome)
    co_return;
  keep_alive_ = false;
  request_.id = request_id({});
  const ApiError full{.status = 503,
                      .message = "too many connections: try again later",
                      .code = "too_many_connections",
                      .retry_after_seconds = 1};
  co_await send(full);
  co_await linger();
}

/// Waits for a request. False: nothing more is to be answered, or the client has left, or asks for
/// nothing.
asio::awaitable<bool> Connection::await_request() {
  if (!keep_alive_)
    co_return false;
  watchdog_->set(service_->settings().idle_timeout);
  co_return co_await reader_.await_request();
}

asio::awaitable<void> Connection::serve_request() {
  request_.arrived = Clock::now();
  request_.id = request_id({});
  request_.method.clear();
  request_.path.clear();
  remarks_.clear();
  on_gone(nullptr);
  origin_.clear();
  memory_.emplace(service_->memory());
  status_ = 0;
  written_ = 0;
  watchdog_->set(service_->settings().receive_timeout);
  std::optional<Parser> parser;
  reader_.begin(parser, service_->settings().max_body_bytes);
  if (!co_await read_head(*parser))
    co_return log_request();
  const Service::Answering counted(*service_);
  if (co_await answer_preflight(*parser))
    co_return log_request();
  co_await serve(*parser);
  log_request();
}

/// Serves a request whose head is there. Nothing behind the body tells who sent it.
asio::awaitable<void> Connection::serve(Parser& parser) {
  const std::string authorization(view(parser.get()[http::field::authorization]));
  std::string allowed;
  const auto route = find_route(request_.method, request_.path, allowed);
  if (!route) {
    keep_alive_ = keep_alive_ && parser.is_done();
    co_await send(refusal(route.error(), allowed.empty() ? "" : "Allow", allowed));
  } else if (const auto closed = route_error(**route, authorization)) {
    keep_alive_ = keep_alive_ && parser.is_done();
    co_await send(refusal(*closed, closed->status == 401 ? "WWW-Authenticate" : "", "Bearer"));
  } else if (const auto coded = coding_error(parser)) {
    keep_alive_ = keep_alive_ && parser.is_done();
    co_await send(refusal(*coded, "Accept-Encoding", "identity"));
  } else if (co_await read_body(parser, (*route)->for_everybody
                                            ? limits::header_bytes
                                            : service_->settings().max_body_bytes)) {
    request_.client = service_->keys().holder(authorization);
    request_.draft_scope = service_->draft_scope(request_.client.name);
    request_.cache_scope = service_->cache_scope(request_.client.name);
    co_await answer(**route);
  }
}

/// Returns the error of an encoded body. None: the body is as it is.
std::optional<ApiError> Connection::coding_error(const Parser& parser) const {
  const auto coding = view(parser.get()[http::field::content_encoding]);
  if (coding.empty() || beast::iequals(coding, "identity"))
    return std::nullopt;
  return ApiError{.status = 415,
                  .message = fmt::format("bodies are not decoded, and this one's Content-Encoding "
                                         "is {}: send it without one",
                                         coding),
                  .code = "unsupported_encoding"};
}

/// Returns why the route is closed, or closed for this key; none if it may be used.
std::optional<ApiError> Connection::route_error(const Route& route,
                                                std::string_view authorization) const {
  if (route.for_page && !service_->settings().web)
    return ApiError{.status = 404,
                    .message = "this server has no page: start it without --no-web to have one",
                    .code = "not_found"};
  if (route.for_everybody)
    return std::nullopt;
  const Keys& keys = route.for_admin ? service_->admin_keys() : service_->keys();
  if (route.for_admin && !keys.required())
    return ApiError{.status = 403,
                    .message = "models are not loaded or unloaded here, since there is no admin "
                               "key: ask the operator for one",
                    .code = "no_admin"};
  if (keys.accept(authorization))
    return std::nullopt;
  return no_such_key();
}

/// Reads the request line and the headers. False: no request can follow.
asio::awaitable<bool> Connection::read_head(Parser& parser) {
  if (const error_code failed = co_await reader_.read_head(parser)) {
    co_await refuse_reading(failed);
    co_return false;
  }
  take_head(parser);
  if (const char* wrong = ambiguity(parser.get())) {
    keep_alive_ = false;
    const ApiError error{.status = 400, .message = wrong, .code = "bad_request"};
    co_await send(error);
    co_return false;
  }
  co_return true;
}

void Connection::take_head(const Parser& parser) {
  const auto& head = parser.get();
  request_.method = view(head.method_string());
  request_.path = decode_target(view(head.target()));
  request_.id = request_id(view(head["X-Request-Id"]));
  request_.if_none_match = view(head[http::field::if_none_match]);
  const auto origin = view(head[http::field::origin]);
  if (!origin.empty() && is_allowed(origin, service_->settings().allowed_origins))
    origin_ = origin;
  chunked_ = head.version() >= 11;
  keep_alive_ = parser.keep_alive();
}

/// Reads the body. most: a longer one is refused.
asio::awaitable<bool> Connection::read_body(Parser& parser, std::size_t most) {
  if (chunked_ && !parser.is_done() &&
      beast::iequals(parser.get()[http::field::expect], "100-continue"))
    co_await write("HTTP/1.1 100 Continue\r\n\r\n");
  watchdog_->set(service_->settings().receive_timeout);
  std::string& body = request_.body;
  const std::size_t whole = parser.content_length().value_or(0); // 0: the head does not say.
  while (!parser.is_done()) {
    const std::size_t had = body.size();
    if (std::max(whole, had) > most) {
      co_await refuse_reading(make_error_code(http::error::body_limit));
      co_return false;
    }
    const std::size_t rest = whole > had ? whole - had : body_read_bytes;
    if (!make_room(std::min(rest, std::max(had, body_read_bytes)))) {
      keep_alive_ = false;
      co_await send(no_request_memory());
      co_return false;
    }
    body.resize(body.capacity());
    parser.get().body().data = body.data() + had;
    parser.get().body().size = body.size() - had;
    const error_code failed = co_await reader_.read_body(parser);
    body.resize(body.size() - parser.get().body().size);
    if (failed && failed != http::error::need_buffer) {
      co_await refuse_reading(failed);
      co_return false;
    }
  }
  watchdog_->clear();
  co_return true;
}

/// Makes room for so many more bytes of the body. The buffer at most doubles, so that what counts
/// is what has come.
bool Connection::make_room(std::size_t more) {
  std::string& body = request_.body;
  if (!memory_->hold(body.size() + more))
    return false;
  body.reserve(body.size() + more);
  return memory_->hold(body.capacity());
}

/// Answers the request that a browser sends before a page of another origin may ask. True: this was
/// such a request, and it is answered.
asio::awaitable<bool> Connection::answer_preflight(const Parser& parser) {
  const auto& head = parser.get();
  if (request_.method != "OPTIONS" || origin_.empty() ||
      head.count(http::field::access_control_request_method) == 0)
    co_return false;
  keep_alive_ = keep_alive_ && parser.is_done();
  HttpResponse response{.status = 204};
  const auto headers = view(head[http::field::access_control_request_headers]);
  response.headers = {
      {"Access-Control-Allow-Methods", "GET, HEAD, POST"},
      {"Access-Control-Allow-Headers",
       headers.empty() ? "Authorization, Content-Type, X-Request-Id" : std::string(headers)},
      {"Access-Control-Max-Age", "600"}};
  co_await send(std::move(response));
  co_return true;
}

asio::awaitable<void> Connection::refuse_reading(error_code why) {
  const bool late = watchdog_->barked();
  keep_alive_ = false;
  if (!late && is_end(why))
    co_return client_gone();
  const ApiError error = unreadable(why, late);
  co_await send(error);
}

asio::awaitable<void> Connection::answer(const Route& route) {
  using namespace asio::experimental::awaitable_operators;
  if (!route.for_everybody && service_->state() != Service::State::ready) {
    const ApiError closed = unavailable(service_->state());
    co_return co_await send(closed);
  }
  if (route.long_running)
    co_await (call(route) || watch_client());
  else
    co_await call(route);
  if (status_ == 0 || gone())
    keep_alive_ = false;
}

/// Calls the endpoint. An exception is answered 500, and never leaves this connection.
asio::awaitable<void> Connection::call(const Route& route) {
  std::string thrown;
  try {
    co_await route.answer(*service_, *this);
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  if (thrown.empty())
    co_return;
  service_->log().write(LogLevel::error, "exception", {{"id", request_.id}, {"what", thrown}});
  keep_alive_ = false;
  if (status_ != 0)
    co_return;
  const ApiError internal{.status = 500, .message = "internal error: please report it"};
  co_await send(internal);
}

/// Notes when the client leaves; until then keeps what it sends ahead. Only cancellation ends it.
asio::awaitable<void> Connection::watch_client() {
  while (!reader_.full()) {
    const error_code failed = co_await reader_.read_ahead();
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none)
      co_return;
    if (failed == asio::error::operation_aborted)
      continue; // The watchdog cancelled this; it meant a write.
    if (failed) {
      client_gone();
      break;
    }
  }
  asio::steady_timer forever(transport_.get_executor(), asio::steady_timer::time_point::max());
  co_await forever.async_wait(as_result);
}

asio::awaitable<bool> Connection::write(std::string bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size() && !gone()) {
    watchdog_->set(service_->settings().write_timeout);
    const auto [failed, count] = co_await transport_.async_write_some(
        asio::buffer(bytes.data() + sent, bytes.size() - sent), as_result);
    sent += count;
    if (failed) {
      keep_alive_ = false;
      client_gone();
    }
  }
  watchdog_->clear();
  written_ += sent;
  co_return !gone();
}

Connection::Head Connection::head_of(const HttpResponse& response) const {
  Head head(http::int_to_status(response.status), 11);
  head.result(response.status);
  head.set(http::field::server, "paceline/" PACELINE_VERSION);
  head.set(http::field::date, http_date());
  head.set("X-Request-Id", request_.id);
  head.set(http::field::content_type, response.content_type);
  head.set(http::field::connection, keep_alive_ ? "keep-alive" : "close");
  if (!origin_.empty()) {
    head.set(http::field::access_control_allow_origin, origin_);
    head.set(http::field::vary, "Origin");
    head.set(http::field::access_control_expose_headers, "X-Request-Id, Retry-After");
  }
  for (const auto& [name, value] : response.headers)
    head.insert(name, value);
  return head;
}

asio::awaitable<void> Connection::send(HttpResponse response) {
  status_ = response.status;
  if (service_->state() == Service::State::draining)
    keep_alive_ = false;
  Head head = head_of(response);
  if (response.status != 204 && response.status != 304) // These have no body, and state no length.
    head.content_length(response.body.size());
  std::string bytes = bytes_of_head(head);
  if (request_.method != "HEAD")
    bytes += response.body;
  co_await write(std::move(bytes));
}

asio::awaitable<bool> Connection::begin_parts(HttpResponse response) {
  status_ = response.status;
  if (service_->state() == Service::State::draining || !chunked_)
    keep_alive_ = false;
  Head head = head_of(response);
  head.chunked(chunked_);
  return write(bytes_of_head(head));
}

asio::awaitable<bool> Connection::write_part(std::string bytes) {
  if (chunked_)
    bytes = beast::buffers_to_string(http::make_chunk(asio::buffer(bytes)));
  return write(std::move(bytes));
}

asio::awaitable<void> Connection::end_parts() {
  if (chunked_)
    co_await write(beast::buffers_to_string(http::make_chunk_last()));
}

/// Announces that nothing more comes, and reads what is still under way: closing at once would take
/// the last answer from the client.
asio::awaitable<void> Connection::linger() {
  if (gone())
    co_return;
  watchdog_->set(limits::linger_time);
  reader_.drop();
  co_await transport_.finish_writing();
  std::array<char, linger_read_bytes> away{};
  for (std::size_t total = 0; total < limits::linger_bytes && !watchdog_->barked();) {
    const auto [failed, count] = co_await transport_.async_read_some(asio::buffer(away), as_result);
    if (failed)
      break;
    total += count;
  }
}

void Connection::log_request() {
  if (status_ != 0)
    service_->metrics().answered(status_);
  const std::chrono::duration<double, std::milli> took = Clock::now() - request_.arrived;
  LogFields fields{
      {"id", request_.id},         {"peer", request_.peer},
      {"method", request_.method}, {"path", request_.path},
      {"status", status_},         {"milliseconds", std::round(took.count() * 10) / 10},
      {"bytes", written_}};
  if (gone())
    fields["client"] = "gone";
  fields.insert(remarks_.begin(), remarks_.end());
  service_->log().info("request", fields);
}

} // namespace paceline::apps::serve
