// What goes out while an answer has nothing to say, so that nobody between cuts the connection.
#include "tests/serve/live_server.hpp"

#include <array>
#include <boost/asio/buffer.hpp>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

const std::string small = R"({"prompt": [1], "max_tokens": 2})";
const std::string streamed = R"({"prompt": [1], "max_tokens": 2, "stream": true})";

/// Steps take longer than it takes until a stream's headers go out.
EngineOptions slow() {
  return scripted("sim:1500ms");
}

Settings awake(std::chrono::milliseconds interval) {
  Settings settings;
  settings.awake_interval = interval;
  return settings;
}

/// All that comes until the server closes.
std::string all_of(HttpClient& client) {
  std::string all;
  boost::system::error_code ended;
  std::array<char, 4096> bytes{};
  while (!ended)
    all.append(bytes.data(), client.socket().read_some(boost::asio::buffer(bytes), ended));
  return all;
}

} // namespace

TEST_CASE("a stream without a token yet has headers, and comments that clients skip") {
  LiveServer server(slow(), awake(20ms));
  HttpClient client(server.port());
  client.send("POST", "/v1/completions", streamed);
  CHECK(client.read_head().status == 200);
  CHECK(client.read_events().back().at("choices").at(0).at("finish_reason") == "length");
  CHECK(client.comments() > 2);
  CHECK(client.ask("GET", "/health").status == 200); // the connection goes on
}

TEST_CASE("a whole answer that takes long begins with blanks of its JSON") {
  LiveServer server(slow(), awake(20ms));
  HttpClient client(server.port());
  const HttpReply reply = client.ask("POST", "/v1/completions", small);
  CHECK(reply.status == 200);
  CHECK(reply.headers.at("transfer-encoding") == "chunked");
  CHECK(reply.body.starts_with("\n\n"));
  CHECK(reply.json().at("choices").at(0).at("finish_reason") == "length");
  CHECK(client.ask("GET", "/health").status == 200);
}

TEST_CASE("a whole answer that fails after its status went out is broken off") {
  Settings settings = awake(20ms);
  settings.request_timeout = 500ms;
  LiveServer server(slow(), settings);
  HttpClient client(server.port());
  client.send("POST", "/v1/completions", small);
  const std::string all = all_of(client);
  INFO(all);
  CHECK(all.starts_with("HTTP/1.1 200 "));
  CHECK(all.find(R"("code":"deadline")") != std::string::npos);
  CHECK(!all.ends_with("0\r\n\r\n"));
}

TEST_CASE("what fails before that has its status, and so has all where nothing is to go out") {
  for (const auto interval : {10s, 0s}) {
    Settings settings = awake(interval);
    settings.request_timeout = 500ms;
    LiveServer server(slow(), settings);
    CHECK(server.ask("POST", "/v1/completions", small).status == 504);
  }
}

TEST_CASE("with HTTP/1.0 a whole answer waits for its end") {
  LiveServer server(slow(), awake(20ms));
  HttpClient client(server.port());
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(small.size()) +
              "\r\n\r\n" + small);
  const std::string all = all_of(client);
  CHECK(all.find("Content-Length: ") != std::string::npos);
  CHECK(all.find("\r\n\r\n{") != std::string::npos);
}
