// The end of a server: what was accepted finishes, what comes later is told.
#include "tests/serve/live_server.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

std::string body_of(int tokens) {
  return R"({"prompt": [1, 2, 3], "seed": 5, "stream": true, "max_tokens": )" +
         std::to_string(tokens) + "}";
}

void await_draining(LiveServer& server) {
  while (server.ask("GET", "/ready").status != 503)
    std::this_thread::yield();
}

} // namespace

TEST_CASE("a drain lets accepted requests finish, and refuses new ones") {
  Settings settings;
  settings.drain_timeout = 1h;
  LiveServer server(scripted("sim:1ms"), settings);
  constexpr int count = 10;
  constexpr int tokens = 60;
  HttpClient endless(server.port()); // while it runs, there is a server to be asked
  endless.send("POST", "/v1/completions", body_of(60'000));
  CHECK(endless.read_head().status == 200);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->send("POST", "/v1/completions", body_of(tokens));
    CHECK(clients.back()->read_head().status == 200);
  }
  HttpClient idle(server.port());
  CHECK(idle.ask("GET", "/ready").status == 200);
  server.drain();
  await_draining(server);
  const HttpReply refused = idle.ask("POST", "/v1/completions", body_of(1));
  CHECK(refused.status == 503);
  CHECK(refused.headers.at("retry-after") == "1");
  CHECK(refused.headers.at("connection") == "close");
  CHECK(refused.json().at("error").at("code") == "shutting_down");
  CHECK(server.ask("GET", "/health").status == 200); // alive, though it takes nothing
  for (const auto& client : clients) {
    const auto events = client->read_events();
    CHECK(events.back().at("choices").at(0).at("finish_reason") == "length");
  }
  endless.close();
  server.join();
  for (const auto& client : clients)
    CHECK(client->ended());
  CHECK_THROWS(HttpClient(server.port()));
}

TEST_CASE("what does not finish in time is told so") {
  Settings settings;
  settings.drain_timeout = 50ms;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient streaming(server.port());
  streaming.send("POST", "/v1/completions", body_of(60'000));
  CHECK(streaming.read_head().status == 200);
  HttpClient waiting(server.port());
  waiting.send("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 60000})");
  while (server.engine().metrics().running < 2)
    std::this_thread::yield();
  server.drain();
  CHECK(streaming.read_events().back().at("error").at("code") == "shutting_down");
  CHECK(waiting.read().status == 503);
  server.join();
}

TEST_CASE("a drain does not wait for connections that ask for nothing") {
  LiveServer server(scripted());
  HttpClient idle(server.port());
  HttpClient half(server.port());
  half.send("POST /v1/completions HTTP/1.1\r\nHost:");
  CHECK(server.ask("GET", "/health").status == 200);
  server.drain();
  server.join();
  CHECK(idle.ended());
}
