// Every part of HTTP's grammar, right and wrong, through a server that goes on.
#include "tests/serve/live_server.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;

namespace {

const std::string chunked = "GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

int status_of(const LiveServer& server, const std::string& bytes) {
  HttpClient client(server.port());
  client.send(bytes);
  return client.read().status;
}

/// The same, however it is cut into packets.
int status_by_bytes(const LiveServer& server, const std::string& bytes) {
  HttpClient client(server.port());
  client.socket().set_option(boost::asio::ip::tcp::no_delay(true));
  for (const char byte : bytes)
    client.send(std::string(1, byte));
  return client.read().status;
}

std::string many_extensions() {
  std::string body;
  for (int i = 0; i < 20; ++i)
    body += "1;a=" + std::string(3000, 'y') + "\r\nx\r\n";
  return body + "0\r\n\r\n";
}

} // namespace

TEST_CASE("what frames a body is bounded, whichever part of the framing it is") {
  LiveServer server(scripted());
  const std::string much(100'000, 'y');
  CHECK(status_of(server, chunked + "0\r\nT: " + much + "\r\n\r\n") == 431);
  CHECK(status_of(server, chunked + "0\r\n" + much + ": t\r\n\r\n") == 431);
  CHECK(status_of(server, chunked + "5;a=" + much + "\r\nhello\r\n0\r\n\r\n") == 431);
  CHECK(status_of(server, chunked + "0;a=" + much + "\r\n\r\n") == 431);
  CHECK(status_of(server, chunked + std::string(100'000, '0') + "\r\n\r\n") == 431);
  CHECK(status_of(server, chunked + many_extensions()) == 431);
  CHECK(status_of(server, "GET /health HTTP/1.1\r\nHost: a\r\nT: " + much + "\r\n\r\n") == 431);
  CHECK(status_of(server, "GET /" + much + " HTTP/1.1\r\nHost: a\r\n\r\n") == 431);
  CHECK(status_of(server, chunked + "fffff\r\n" + much) == 413);
  CHECK(status_of(server, "GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n") ==
        413);
  CHECK(server.ask("GET", "/health").status == 200);
}

TEST_CASE("a body's framing is read as RFC 9112 has it, however it is cut into packets") {
  LiveServer server(scripted());
  for (const std::string& right : std::vector<std::string>{
           "0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "0\r\nT: x\r\n\r\n",
           "005\r\nhello\r\n000\r\n\r\n", "5;a=b\r\nhello\r\n0;c=\"d\"\r\nT: x\r\nU: y\r\n\r\n",
           "A\r\n0123456789\r\n0\r\n\r\n"}) {
    CAPTURE(right);
    CHECK(status_of(server, chunked + right) == 200);
    CHECK(status_by_bytes(server, chunked + right) == 200);
  }
  for (const std::string& wrong : std::vector<std::string>{
           "+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
           " 5\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n\r\n\r\n", "5\r\nhello0\r\n\r\n",
           "\r\n0\r\n\r\n", "fffffffffffffffff\r\n0\r\n\r\n", "5;\"\r\nhello\r\n0\r\n\r\n",
           "0\r\nT\r\n\r\n", "0\r\n T: x\r\n\r\n", "0\r\nContent-Length: 5\r\n\r\n",
           "0\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    CAPTURE(wrong);
    CHECK(status_of(server, chunked + wrong) == 400);
    CHECK(status_by_bytes(server, chunked + wrong) == 400);
  }
}

TEST_CASE(
    "heads are read as RFC 9112 has them, and what two servers could read differently is refused") {
  LiveServer server(scripted());
  const auto with = [](const std::string& target, const std::string& headers) {
    return "GET " + target + " HTTP/1.1\r\n" + headers + "\r\n";
  };
  CHECK(status_of(server, with("/health", "Host: a\r\n")) == 200);
  CHECK(status_of(server, with("http://a/health", "Host: a\r\n")) == 200);
  CHECK(status_of(server, with("/health", "Host: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n")) ==
        200);
  CHECK(status_of(server, with("/health", "Host: a\r\nX: b\r\n c\r\n")) == 200); // folded
  CHECK(status_of(server, with("a:443", "Host: a\r\n")) == 404);
  CHECK(status_of(server, with("*", "Host: a\r\n")) == 404);
  CHECK(status_of(server, with("", "Host: a\r\n")) == 400);
  CHECK(status_of(server, with("/health", "")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\r\nHost: b\r\n")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\r\nX : b\r\n")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\nX: b\n")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\r\nContent-Length: +5\r\n")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\r\nContent-Length: 5, 6\r\n")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: "
                                          "chunked\r\n")) == 400);
  CHECK(status_of(server, with("/health", "Host: a\r\nTransfer-Encoding: gzip, chunked\r\n")) ==
        400);
  CHECK(status_of(server, "GET /health HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") ==
        400);
  CHECK(status_of(server, "GET /health HTTP/2.0\r\nHost: a\r\n\r\n") == 400);
}

TEST_CASE(
    "a request that comes behind another one in parts is answered, and so is one that asks first") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  client.send(chunked + "0\r\n\r\nGET /hea");
  CHECK(client.read().status == 200);
  client.send("lth HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(client.read().status == 200);
  client.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
              "Content-Length: 15\r\n\r\n");
  CHECK(client.read_head().status == 100);
  client.send(R"({"prompt": [1]})");
  CHECK(client.read().status == 200);
}

TEST_CASE("heads, extensions and trailers that are never whole are bounded together") {
  Settings settings;
  settings.max_request_memory = std::size_t(128) << 10;
  LiveServer server(scripted(), settings);
  const std::string part(30'000, 'y'); // of what each connection may hold by itself
  const std::vector<std::string> beginnings{"GET /health HTTP/1.1\r\nHost: a\r\nT: " + part,
                                            chunked + "5;a=" + part, chunked + "0\r\nT: " + part};
  for (const std::string& beginning : beginnings) {
    std::vector<std::unique_ptr<HttpClient>> open;
    for (int i = 0; i < 64; ++i) {
      open.push_back(std::make_unique<HttpClient>(server.port()));
      open.back()->send(beginning);
    }
    auto refused = open.begin();
    while ((*refused)->socket().available() == 0)
      if (++refused == open.end())
        refused = open.begin();
    CHECK((*refused)->read().status == 503);
    CHECK(server.metric("paceline_request_memory_bytes{") <= double(settings.max_request_memory));
    CHECK(server.ask("GET", "/health").status == 200);
    open.clear();
    while (server.metric("paceline_request_memory_bytes{") > 0)
      std::this_thread::yield();
  }
}

TEST_CASE("bodies that would have to be decoded are refused by name, and others are not") {
  LiveServer server(scripted());
  for (const char* coding : {"gzip", "deflate", "br", "gzip, identity"}) {
    const HttpReply reply =
        server.ask("POST", "/v1/completions", "\x1f\x8b", {{"Content-Encoding", coding}});
    CHECK(reply.status == 415);
    CHECK(reply.headers.at("accept-encoding") == "identity");
    CHECK(reply.json().at("error").at("code") == "unsupported_encoding");
    CHECK(reply.body.find(coding) != std::string::npos);
  }
  CHECK(
      server
          .ask("POST", "/v1/completions", R"({"prompt": [1]})", {{"Content-Encoding", "identity"}})
          .status == 200);
}

TEST_CASE("a path that is nearly right is answered with the one that is") {
  LiveServer server(scripted());
  for (const auto& [asked, meant] : std::vector<std::pair<std::string, std::string>>{
           {"/chat/completions", "/v1/chat/completions"},
           {"/v1/v1/completions", "/v1/completions"},
           {"/api/v1/models", "/v1/models"},
           {"/v1/models/", "/v1/models"},
           {"/models", "/v1/models"},
           {"/health/", "/health"}}) {
    const HttpReply reply = server.ask("GET", asked);
    CHECK(reply.status == 404);
    CHECK(reply.body.find("ask for " + meant) != std::string::npos);
  }
  CHECK(server.ask("GET", "/" + std::string(20'000, '/')).status == 404);
  CHECK(server.ask("GET", "/nothing").body.find("docs/serving.md") != std::string::npos);
}
