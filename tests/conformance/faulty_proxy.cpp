#include "tests/conformance/faulty_proxy.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace paceline::testing {
namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;

namespace {

/// Reads a whole message of any length.
template <bool request>
bool read_message(tcp::socket& from, boost::beast::flat_buffer& buffer,
                  http::message<request, http::string_body>& into) {
  http::parser<request, http::string_body> parser;
  parser.body_limit(boost::none);
  boost::system::error_code failed;
  http::read(from, buffer, parser, failed);
  into = parser.release();
  return !failed;
}

std::optional<json::object> object_of(const std::string& body) {
  json::error_code wrong;
  json::value value = json::parse(body, wrong);
  if (wrong || !value.is_object())
    return std::nullopt;
  return std::move(value.get_object());
}

} // namespace

bool Exchange::streams() const {
  const auto* stream = request.if_contains("stream");
  return stream && stream->is_bool() && stream->get_bool();
}

FaultyProxy::FaultyProxy(std::uint16_t server, Fault fault)
    : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), server_(server),
      fault_(std::move(fault)), thread_([this] { accept(); }) {}

FaultyProxy::~FaultyProxy() {
  boost::system::error_code ignored;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (Connection& connection : connections_) {
      connection.client.shutdown(tcp::socket::shutdown_both, ignored);
      connection.server.shutdown(tcp::socket::shutdown_both, ignored);
    }
  }
  tcp::socket last(io_);
  last.connect(acceptor_.local_endpoint(), ignored); // ends the accept
  thread_.join();
  for (Connection& connection : connections_)
    connection.thread.join();
}

void FaultyProxy::accept() {
  for (;;) {
    tcp::socket socket(io_);
    boost::system::error_code failed;
    acceptor_.accept(socket, failed);
    const std::lock_guard lock(mutex_);
    if (closing_)
      return;
    Connection& connection = connections_.emplace_back(std::move(socket));
    connection.server.connect({asio::ip::address_v4::loopback(), server_}, failed);
    connection.thread = std::thread([this, &connection] { serve(connection); });
  }
}

Exchange FaultyProxy::begin(const std::string& body) {
  Exchange exchange;
  if (auto object = object_of(body))
    exchange.request = std::move(*object);
  const std::lock_guard lock(mutex_);
  exchange.number = number_++;
  exchange.times = times_[body]++;
  exchange.alone = ++under_way_ == 1;
  if (fault_.before && !exchange.request.empty())
    fault_.before(exchange);
  return exchange;
}

void FaultyProxy::serve(Connection& connection) {
  boost::beast::flat_buffer asked;
  boost::beast::flat_buffer answered;
  http::request<http::string_body> request;
  boost::system::error_code failed;
  while (!failed && read_message(connection.client, asked, request)) {
    Exchange exchange = begin(request.body());
    http::response<http::string_body> response(http::status::ok, 11);
    bool came = true;
    if (exchange.refusal) {
      response.result(*exchange.refusal);
      response.body() = R"({"error": {"message": "a fault that was planted"}})";
    } else {
      if (!exchange.request.empty())
        request.body() = json::serialize(exchange.request);
      request.prepare_payload();
      http::write(connection.server, request, failed);
      came = !failed && read_message(connection.server, answered, response);
    }
    {
      const std::lock_guard lock(mutex_);
      --under_way_;
      if (response.result() == http::status::ok && fault_.after)
        response.body() = exchange.streams() ? changed_events(exchange, response.body())
                                             : changed(exchange, response.body());
    }
    if (!came)
      break;
    response.prepare_payload();
    http::write(connection.client, response, failed);
  }
  boost::system::error_code ignored;
  connection.client.shutdown(tcp::socket::shutdown_both, ignored);
}

std::string FaultyProxy::changed(Exchange& exchange, const std::string& body) {
  auto answer = object_of(body);
  if (!answer || !answer->contains("choices"))
    return body;
  fault_.after(exchange, *answer);
  return json::serialize(*answer);
}

std::string FaultyProxy::changed_events(Exchange& exchange, const std::string& body) {
  constexpr std::string_view begins = "data: ";
  std::string all;
  std::size_t at = 0;
  for (std::size_t end = 0; (end = body.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = body.substr(at, end - at);
    const auto event = line.starts_with(begins) ? object_of(line.substr(begins.size()))
                                                : std::optional<json::object>();
    if (!event) {
      all += line + "\n";
      continue;
    }
    json::object changed = *event;
    fault_.after(exchange, changed);
    ++exchange.events;
    all += std::string(begins) + json::serialize(changed) + "\n";
  }
  return all + body.substr(at);
}

} // namespace paceline::testing
