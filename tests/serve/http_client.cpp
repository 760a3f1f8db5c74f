#include "tests/serve/http_client.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace paceline::testing {

namespace asio = boost::asio;
using asio::ip::tcp;

boost::json::object HttpReply::json() const {
  INFO(body);
  boost::system::error_code wrong;
  const auto value = boost::json::parse(body, wrong);
  REQUIRE(!wrong);
  REQUIRE(value.is_object());
  return value.get_object();
}

HttpClient::HttpClient(std::uint16_t port, int receive_bytes) : socket_(io_, tcp::v4()) {
  if (receive_bytes > 0)
    socket_.set_option(asio::socket_base::receive_buffer_size(receive_bytes));
  socket_.connect({asio::ip::address_v4::loopback(), port});
}

void HttpClient::send(const std::string& bytes) {
  boost::system::error_code gone; // a server may refuse before it has read all
  asio::write(socket_, asio::buffer(bytes), gone);
}

void HttpClient::send(const std::string& method, const std::string& target, const std::string& body,
                      const Headers& headers) {
  std::string request = method + " " + target + " HTTP/1.1\r\nHost: test\r\n";
  for (const auto& [name, value] : headers)
    request += name + ": " + value + "\r\n";
  if (!body.empty())
    request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  send(request + "\r\n" + body);
}

HttpReply HttpClient::ask(const std::string& method, const std::string& target,
                          const std::string& body, const Headers& headers) {
  send(method, target, body, headers);
  return read();
}

bool HttpClient::fill() {
  std::array<char, 16384> bytes{};
  boost::system::error_code ended;
  const std::size_t count = socket_.read_some(asio::buffer(bytes), ended);
  buffer_.append(bytes.data(), count);
  return !ended;
}

std::string HttpClient::line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos)
    if (!fill())
      return {};
  std::string text = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return text;
}

std::string HttpClient::exactly(std::size_t count) {
  while (buffer_.size() < count && fill()) {
  }
  std::string bytes = buffer_.substr(0, count);
  buffer_.erase(0, bytes.size());
  return bytes;
}

std::string HttpClient::chunk() {
  const std::string size = line();
  std::string bytes = exactly(size.empty() ? 0 : std::stoul(size, nullptr, 16));
  line();
  return bytes;
}

HttpReply HttpClient::read_head() {
  HttpReply reply;
  const std::string first = line();
  if (!first.starts_with("HTTP/1.1 "))
    return reply;
  reply.status = std::stoi(first.substr(9));
  for (std::string header = line(); !header.empty(); header = line()) {
    const auto colon = header.find(": ");
    std::string name = header.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return char(std::tolower(c)); });
    reply.headers[name] = header.substr(colon + 2);
  }
  return reply;
}

HttpReply HttpClient::read() {
  HttpReply reply = read_head();
  if (reply.headers.contains("content-length"))
    reply.body = exactly(std::stoul(reply.headers["content-length"]));
  else if (reply.headers.contains("transfer-encoding"))
    for (std::string part = chunk(); !part.empty(); part = chunk())
      reply.body += part;
  return reply;
}

std::optional<std::string> HttpClient::read_event() {
  std::size_t end = 0;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    const std::string more = chunk();
    if (more.empty())
      return std::nullopt;
    events_ += more;
  }
  const std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  if (event.starts_with(':')) {
    ++comments_;
    return read_event();
  }
  const std::string data = "data: ";
  const auto at = event.starts_with("event: ") ? event.find('\n') + 1 : 0; // which data repeats
  REQUIRE(event.compare(at, data.size(), data) == 0);
  return event.substr(at + data.size());
}

std::vector<boost::json::object> HttpClient::read_events() {
  std::vector<boost::json::object> all;
  auto event = read_event();
  for (; event && *event != "[DONE]"; event = read_event())
    all.push_back(HttpReply{.status = 200, .headers = {}, .body = *event}.json());
  CHECK(event == "[DONE]");
  CHECK_FALSE(read_event());
  return all;
}

bool HttpClient::ended() {
  std::array<char, 16384> bytes{};
  boost::system::error_code ended;
  while (!ended)
    socket_.read_some(asio::buffer(bytes), ended);
  return ended == asio::error::eof;
}

void HttpClient::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

} // namespace paceline::testing
