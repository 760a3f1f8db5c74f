// Clients that read slowly, not at all, or leave: only they feel it.
#include "tests/serve/live_server.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

constexpr int little = 128 << 10;

std::string body_of(int tokens, bool stream) {
  return R"({"prompt": [1, 2, 3], "seed": 5, "max_tokens": )" + std::to_string(tokens) +
         (stream ? R"(, "stream": true})" : "}");
}

/// Log-probabilities make it long: a few hundred tokens are more than the system's buffers hold.
std::string long_body(int tokens) {
  return R"({"prompt": [1, 2, 3], "seed": 5, "logprobs": 20, "stream": true, "max_tokens": )" +
         std::to_string(tokens) + "}";
}

std::string text_of(HttpClient& client) {
  std::string text;
  for (const auto& event : client.read_events())
    text += event.at("choices").at(0).at("text").as_string();
  return text;
}

} // namespace

TEST_CASE("a slow reader gets everything, and others do not wait for it") {
  Settings settings;
  settings.write_timeout = 1h; // slow is not dead, however slow this machine is
  LiveServer server(scripted(), settings);
  constexpr int many = 800;
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = many;
  request.sampling.seed = 5;
  const std::string expected = server.engine().complete(request).value().text;

  HttpClient slow(server.port(), little);
  slow.send("POST", "/v1/completions", long_body(many));
  CHECK(slow.read_head().status == 200);
  for (int i = 0; i < 20; ++i)
    CHECK(server.ask("POST", "/v1/completions", body_of(50, false)).status == 200);
  // It was generated to its end, though nobody reads: nothing of the engine waits for a socket.
  while (server.engine().metrics().running > 0)
    std::this_thread::yield();
  CHECK((text_of(slow) == expected)); // too long to be shown
}

TEST_CASE("a client that reads nothing is cut off, and its request cancelled") {
  Settings settings;
  settings.write_timeout = 100ms;
  LiveServer server(scripted(), settings);
  HttpClient dead(server.port(), little);
  dead.send("POST", "/v1/completions", long_body(60'000));
  server.await_idle();
  CHECK(server.ask("POST", "/v1/completions", body_of(5, false)).status == 200);
}

TEST_CASE("clients that leave in mid-stream leave nothing behind") {
  LiveServer server(scripted("sim:100us"));
  constexpr int times = 500;
  for (int i = 0; i < times; ++i) {
    HttpClient client(server.port());
    client.send("POST", "/v1/completions", body_of(60'000, true));
    if (i % 3 == 0) { // at once, after the head, after an event
      client.close();
      continue;
    }
    CHECK(client.read_head().status == 200);
    if (i % 3 == 1)
      CHECK(client.read_event());
  }
  server.await_idle();
  const Metrics metrics = server.engine().metrics();
  CHECK(metrics.kv_pages_used == 0);
  CHECK(
      server.metric(
          R"(vllm:request_success_total{engine="0",model_name="demo",finished_reason="abort"})") ==
      doctest::Approx(double(metrics.finished)));
  CHECK(metrics.finished > times / 2); // some left before they were heard
}

TEST_CASE("a client that leaves while it waits for a whole answer cancels it") {
  LiveServer server(scripted("sim:1ms"));
  for (int i = 0; i < 20; ++i) {
    HttpClient client(server.port());
    client.send("POST", "/v1/completions", body_of(60'000, false));
    while (server.engine().metrics().running == 0)
      std::this_thread::yield();
    client.close();
    server.await_idle();
  }
  CHECK(server.engine().metrics().finished == 20);
}

TEST_CASE("many streams at once are each what it would be alone") {
  LiveServer server;
  const std::string body =
      R"({"prompt": "import os\n", "seed": 5, "max_tokens": 24, "stream": true})";
  const auto start = [&] {
    auto client = std::make_unique<HttpClient>(server.port());
    client->send("POST", "/v1/completions", body);
    return client;
  };
  const auto alone = start();
  CHECK(alone->read_head().status == 200);
  const std::string expected = text_of(*alone);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 100; ++i)
    clients.push_back(start());
  for (const auto& client : clients) {
    CHECK(client->read_head().status == 200);
    CHECK(text_of(*client) == expected);
  }
  server.await_idle();
}
