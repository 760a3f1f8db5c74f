// What all clients together may make a server hold, and what one of them may make others wait for.
#include "tests/serve/live_server.hpp"

#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>

#include <memory>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::MemoryShare;
using apps::serve::RequestMemory;
using apps::serve::Settings;

namespace {

/// A request of which `sent` bytes of the body have been sent.
std::unique_ptr<HttpClient> begin_request(const LiveServer& server, std::size_t length,
                                          std::size_t sent) {
  auto client = std::make_unique<HttpClient>(server.port());
  client->send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
               std::to_string(length) + "\r\n\r\n" + std::string(sent, ' '));
  return client;
}

/// Returns this process' seconds of processors, as the server says.
double processor_seconds(const LiveServer& server) {
  const std::string page = server.ask("GET", "/metrics").body;
  const std::string name = "\nprocess_cpu_seconds_total ";
  const auto at = page.find(name);
  REQUIRE(at != std::string::npos);
  return std::stod(page.substr(at + name.size()));
}

} // namespace

TEST_CASE("shares count what they hold and what is allocated through them, and give it back") {
  int idle = 0;
  RequestMemory memory(apps::limits::trim_bytes, [&] { ++idle; });
  {
    MemoryShare one(memory);
    CHECK(one.hold(1000));
    CHECK(!one.hold(apps::limits::trim_bytes + 1));
    CHECK(memory.used() == 1000);
    MemoryShare other(memory);
    CHECK(!other.hold(apps::limits::trim_bytes - 999));
    CHECK(other.hold(apps::limits::trim_bytes - 1000));
    CHECK_THROWS_AS((void)one.allocate(1), std::bad_alloc);
    CHECK(one.hold(10));
    void* some = one.allocate(500);
    CHECK(memory.used() == apps::limits::trim_bytes - 490);
    one.deallocate(some, 500);
  }
  CHECK(memory.used() == 0);
  CHECK(idle == 1);
}

TEST_CASE("bodies that are never whole are bounded together, and let go of when they go") {
  Settings settings;
  settings.max_request_memory = std::size_t(7) << 20; // three bodies of 2 MiB and not a fourth
  LiveServer server(scripted(), settings);
  constexpr std::size_t half = std::size_t(1) << 20;
  std::vector<std::unique_ptr<HttpClient>> open;
  while (open.size() < 3) {
    open.push_back(begin_request(server, 2 * half, half + 1)); // room is made for the rest, too
    while (server.metric("paceline_request_memory_bytes{") < double(open.size() * 2 * half))
      std::this_thread::yield();
  }
  auto last = begin_request(server, 2 * half, 2 * half);
  const HttpReply refused = last->read();
  CHECK(refused.status == 503);
  CHECK(refused.headers.at("retry-after") == "1");
  CHECK(refused.json().at("error").at("code") == "request_memory");
  CHECK(server.metric("paceline_request_memory_bytes{") <= double(settings.max_request_memory));
  CHECK(server.ask("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 2})").status == 200);
  open.clear();
  while (server.metric("paceline_request_memory_bytes{") > 0)
    std::this_thread::yield();
  CHECK(begin_request(server, 2 * half, 2 * half)->read().status == 400); // blanks are no JSON
}

TEST_CASE("what JSON becomes when it is parsed counts, too") {
  Settings settings;
  settings.max_request_memory = std::size_t(4) << 20;
  LiveServer server(scripted(), settings);
  std::string ids = "[1";
  while (ids.size() < (std::size_t(1) << 20))
    ids += ",1"; // two bytes here, and twenty-four there
  const HttpReply refused = server.ask("POST", "/v1/completions", R"({"prompt": )" + ids + "]}");
  CHECK(refused.status == 503);
  CHECK(refused.json().at("error").at("code") == "request_memory");
  CHECK(server.metric("paceline_request_memory_bytes{") == 0);
}

TEST_CASE("a text that cannot fit is not encoded to its end") {
  LiveServer server;
  std::string text;
  while (text.size() < (std::size_t(12) << 20))
    text += "for i in range(10):\n    print(i)\n";
  const std::string body = boost::json::serialize(boost::json::object{{"prompt", text}});
  const double before = processor_seconds(server);
  const HttpReply reply = server.ask("POST", "/v1/completions", body);
  CHECK(reply.status == 400);
  CHECK(reply.json().at("error").at("code") == "context_length_exceeded");
  const double refused = processor_seconds(server) - before;
  CHECK(server.ask("POST", "/tokenize", body).status == 200); // which encodes all of it
  const double encoded = processor_seconds(server) - before - refused;
  CHECK(refused < encoded / 2); // of processor time, whatever else the machine does
}

TEST_CASE("while a long text is encoded short ones and the server's health do not wait for it") {
  LiveServer server;
  std::string text;
  while (text.size() < (std::size_t(8) << 20))
    text += "for i in range(10):\n    print(i)\n";
  HttpClient slow(server.port());
  slow.send("POST", "/tokenize", boost::json::serialize(boost::json::object{{"prompt", text}}));
  while (server.metric("paceline_request_memory_bytes{") < double(text.size()))
    std::this_thread::yield();
  std::string shorter = text.substr(0, 2 * apps::limits::encode_here_bytes);
  const std::string body = boost::json::serialize(boost::json::object{{"prompt", shorter}});
  CHECK(server.ask("GET", "/health").status == 200);
  CHECK(server.ask("POST", "/tokenize", body).status == 200);
  CHECK(slow.socket().available() == 0); // still at it
  CHECK(slow.read().status == 200);
}
