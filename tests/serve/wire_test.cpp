// The protocol over TCP as any client may speak it: greeting, keys, versions, wrong frames, clients
// that are slow, dead or gone, and the end of a server.
#include "net/codec.hpp"
#include "net/limits.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/serve/wire_client.hpp"

#include <doctest/doctest.h>
#include <exception>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

constexpr int little = 128 << 10;
constexpr const char* accepted =
    R"(paceline_tcp_requests_total{engine="0",model_name="demo",outcome="accepted"})";

Request request_of(int tokens) {
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = tokens;
  request.sampling.seed = 5;
  return request;
}

/// Log-probabilities make it long: a few hundred tokens are more than the system's buffers hold.
Request long_request(int tokens) {
  Request request = request_of(tokens);
  request.logprobs = true;
  request.top_logprobs = 20;
  return request;
}

/// What became of a request: its text and end, of whatever else comes on the connection.
struct Outcome {
  std::string text;
  std::optional<Finished> end;
  std::optional<Error> refused;
};

Outcome outcome_of(WireClient& client, net::RequestNumber number) {
  Outcome outcome;
  while (!outcome.end && !outcome.refused) {
    auto message = client.read();
    REQUIRE(message.has_value());
    if (auto* failure = std::get_if<net::Failure>(&*message); failure && failure->number == number)
      outcome.refused = failure->error;
    auto* news = std::get_if<net::Happened>(&*message);
    if (!news || news->number != number)
      continue;
    if (auto* delta = std::get_if<Delta>(&news->event))
      outcome.text += delta->text;
    else if (auto* end = std::get_if<Finished>(&news->event))
      outcome.end = std::move(*end);
  }
  return outcome;
}

/// The next message of this kind.
template <class T>
T await(WireClient& client) {
  for (;;) {
    auto message = client.read();
    REQUIRE(message.has_value());
    if (auto* wanted = std::get_if<T>(&*message))
      return std::move(*wanted);
  }
}

bool works(const LiveServer& server) {
  WireClient client(server.tcp_port());
  client.greet();
  client.send(net::Submit{1, request_of(3)});
  return outcome_of(client, 1).end.has_value();
}

std::string frame_of(const net::ToServer& message) {
  std::string frame;
  net::append(frame, message);
  return frame;
}

} // namespace

TEST_CASE("who has no key, or speaks other versions, is told so and cut off") {
  LiveServer server(scripted());
  const auto refused = [&](const net::Hello& hello) {
    WireClient client(server.tcp_port());
    client.send(hello);
    const auto failure = client.read_to_end();
    REQUIRE(failure.has_value());
    CHECK(failure->number == 0);
    return failure->error;
  };
  using net::limits::version_max;
  const Error newer = refused({version_max + 1, version_max + 2, "", "test"});
  CHECK((newer.code == ErrorCode::unsupported));
  CHECK(newer.hint == "use a newer server");
  CHECK(refused({0, 0, "", "test"}).hint == "use a newer client");
  CHECK((refused({1, 0, "", "test"}).code == ErrorCode::unsupported));
  WireClient client(server.tcp_port()); // a client that is newer, but speaks this version too
  client.send(net::Hello{1, version_max + 5, "", "test"});
  CHECK(await<net::Welcome>(client).version == version_max);
}

TEST_CASE("the protocol over TCP has HTTP's keys") {
  setenv("PACELINE_API_KEY", "first, second", 1);
  LiveServer server(scripted());
  unsetenv("PACELINE_API_KEY");
  for (const std::string wrong : {"", "firs", "first ", "first, second"}) {
    WireClient client(server.tcp_port());
    client.send(net::Hello{1, 1, wrong, "test"});
    const auto failure = client.read_to_end();
    REQUIRE(failure.has_value());
    CHECK(failure->error.message == "there is no such API key");
  }
  WireClient client(server.tcp_port());
  client.greet("second");
  client.send(net::Submit{1, request_of(3)});
  CHECK(outcome_of(client, 1).end.has_value());
}

TEST_CASE("what one key's holder has sent over TCP is not cached for another's") {
  setenv("PACELINE_API_KEY", "first, second", 1);
  LiveServer server(scripted());
  unsetenv("PACELINE_API_KEY");
  Request request = request_of(1);
  request.prompt_tokens.assign(40, 1);
  const auto cached = [&](const char* key) {
    WireClient client(server.tcp_port());
    client.greet(key);
    client.send(net::Submit{1, request});
    return outcome_of(client, 1).end.value().usage.cached_tokens;
  };
  CHECK(cached("first") == 0);
  CHECK(cached("first") == 32);
  CHECK(cached("second") == 0);
}

TEST_CASE("one connection too many is told so") {
  Settings settings;
  settings.max_connections = 1;
  LiveServer server(scripted(), settings);
  WireClient first(server.tcp_port());
  first.greet();
  const auto failure = WireClient(server.tcp_port()).read_to_end();
  REQUIRE(failure.has_value());
  CHECK((failure->error.code == ErrorCode::overloaded));
  CHECK(server.ask("GET", "/health").status == 503); // the limit is one of both doors
}

TEST_CASE("what HTTP bounds is bounded over TCP, too") {
  Settings settings;
  settings.request_timeout = 50ms;
  LiveServer server(scripted("sim:10ms"), settings);
  WireClient client(server.tcp_port());
  client.greet();
  net::RequestNumber number = 0;
  const auto outcome = [&](const Request& request) {
    client.send(net::Submit{++number, request});
    return outcome_of(client, number);
  };
  for (const float bias : {101.0f, -1e30f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Request biased = request_of(3);
    biased.sampling.logit_bias = {{1, bias}};
    const Outcome refused = outcome(biased);
    REQUIRE(refused.refused);
    CHECK(refused.refused->code == ErrorCode::invalid_argument);
    CHECK(refused.refused->message.find("logit_bias") == 0);
  }
  Request banned = request_of(1);
  banned.sampling.logit_bias = {{1, -std::numeric_limits<float>::infinity()}, {2, -100.0f}};
  CHECK_FALSE(outcome(banned).refused);
  // A deadline of none at all is no way around the server's own.
  Request late = request_of(60'000);
  for (const auto& deadline : {std::optional<std::chrono::milliseconds>(0ms), {1h}, {}}) {
    late.deadline = deadline;
    const Outcome ended = outcome(late);
    REQUIRE(ended.end);
    CHECK(ended.end->reason == FinishReason::deadline);
  }
}

TEST_CASE("what is out of order ends the connection, by name") {
  LiveServer server(scripted());
  const std::string hello = frame_of(net::Hello{1, 1, "", "test"});
  const std::string second = frame_of(net::Submit{2, request_of(5)});
  const auto told = [&](const std::string& bytes) {
    WireClient client(server.tcp_port());
    client.send(bytes);
    const auto failure = client.read_to_end();
    REQUIRE(failure.has_value());
    CHECK(failure->number == 0);
    CHECK((failure->error.code == ErrorCode::invalid_argument));
    return failure->error.message;
  };
  CHECK(told(second) == "a connection must begin with Hello");
  CHECK(told(hello + hello) == "a second Hello");
  CHECK(told(hello + second + second) == "request 2 after request 2: numbers must grow");
  CHECK(told(hello + second + frame_of(net::Cancel{3})) == "there was no request 3");
  CHECK(told(hello + frame_of(net::Submit{0, request_of(5)})) ==
        "request 0 after request 0: numbers must grow");
  server.await_idle();
}

TEST_CASE("requests side by side, cancelled or not, end each by itself") {
  LiveServer server(scripted("sim:100us"));
  WireClient client(server.tcp_port());
  CHECK(client.greet().ready);
  client.send(frame_of(net::Submit{3, request_of(60'000)}) +
              frame_of(net::Submit{4, request_of(40)}) + frame_of(net::Ping{9}));
  const Outcome whole = outcome_of(client, 4);
  CHECK(whole.text == server.engine().complete(request_of(40)).value().text);
  client.send(net::Cancel{3});
  CHECK((outcome_of(client, 3).end->reason == FinishReason::cancelled));
  client.send(net::Cancel{3}); // came too late: nothing
  client.send(net::Cancel{1}); // never was, but might have been: nothing
  client.send(net::Ping{10});
  const auto pong = await<net::Pong>(client);
  CHECK(pong.number >= 9);
  CHECK(pong.healthy);
  server.await_idle();
}

TEST_CASE("a slow reader over TCP gets everything, and others do not wait for it") {
  Settings settings;
  settings.write_timeout = 1h; // slow is not dead, however slow this machine is
  LiveServer server(scripted(), settings);
  constexpr int many = 3000;
  const std::string expected = server.engine().complete(request_of(many)).value().text;
  WireClient slow(server.tcp_port(), little);
  slow.greet();
  slow.send(net::Submit{1, long_request(many)});
  while (server.metric(accepted) < 1)
    std::this_thread::yield();
  for (int i = 0; i < 20; ++i)
    CHECK(works(server));
  // It was generated to its end, though nobody reads: nothing of the engine waits for a socket.
  while (server.engine().metrics().running > 0)
    std::this_thread::yield();
  CHECK((outcome_of(slow, 1).text == expected)); // too long to be shown
}

TEST_CASE("a client over TCP that reads nothing is cut off, and its requests cancelled") {
  Settings settings;
  settings.write_timeout = 100ms;
  LiveServer server(scripted(), settings);
  WireClient dead(server.tcp_port(), little);
  dead.greet();
  dead.send(net::Submit{1, long_request(60'000)});
  server.await_idle();
  CHECK(works(server));
}

TEST_CASE("a client that pings and does not read is not read from, and cut off") {
  Settings settings;
  settings.write_timeout = 100ms;
  LiveServer server(scripted(), settings);
  WireClient flood(server.tcp_port(), little);
  flood.greet();
  std::string pings;
  for (std::uint64_t i = 1; i <= 1000; ++i)
    pings += frame_of(net::Ping{i << 40});
  const auto pour = [&] {
    for (;;) // until nobody takes it
      flood.send(pings);
  };
  CHECK_THROWS(pour());
  CHECK(works(server));
}

TEST_CASE("clients that leave in mid-stream over TCP leave nothing behind") {
  LiveServer server(scripted("sim:100us"));
  constexpr int times = 500;
  for (int i = 0; i < times; ++i) {
    WireClient client(server.tcp_port());
    client.greet();
    client.send(frame_of(net::Submit{1, request_of(60'000)}) +
                frame_of(net::Submit{2, request_of(60'000)}));
    if (i % 4 >= 1)
      await<net::Accepted>(client);
    if (i % 4 >= 2)
      await<net::Happened>(client);
    if (i % 4 == 3)
      client.abort();
    else
      client.close();
  }
  server.await_idle();
  CHECK(server.engine().metrics().kv_pages_used == 0);
  CHECK(server.engine().metrics().finished == std::uint64_t(server.metric(accepted)));
  CHECK(server.metric(accepted) > times); // some left before they were heard
  CHECK(
      server.metric(
          R"(vllm:request_success_total{engine="0",model_name="demo",finished_reason="abort"})") ==
      server.metric(accepted));
}

TEST_CASE("who says nothing is told so and cut off, by either door, whatever runs for it") {
  Settings settings;
  settings.idle_timeout = 20ms;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient idle(server.port());
  CHECK(idle.ended());
  WireClient silent(server.tcp_port());
  CHECK(silent.greet().idle == 20ms);
  silent.send(net::Submit{1, request_of(60'000)});
  const auto failure = silent.read_to_end();
  REQUIRE(failure.has_value());
  CHECK((failure->error.code == ErrorCode::deadline));
  server.await_idle();
}

TEST_CASE("clients that vanish without a word leave nothing behind, by either door") {
  Settings settings;
  settings.idle_timeout = 20ms;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient http(server.port());
  http.send("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 60000, "stream": true})");
  CHECK(http.read_head().status == 200);
  HttpClient idle(server.port());
  CHECK(idle.ask("GET", "/health").status == 200);
  WireClient tcp(server.tcp_port());
  tcp.greet();
  tcp.send(net::Submit{1, request_of(60'000)});
  await<net::Happened>(tcp);
  if (!vanish(http.socket()) || !vanish(idle.socket()) || !vanish(tcp.socket())) {
    MESSAGE("not permitted here");
    return;
  }
  server.await_idle(); // what is written into the void comes back as a reset, or nobody speaks
  while (server.metric("paceline_http_connections") > 1 ||
         server.metric("paceline_tcp_connections") > 0)
    std::this_thread::yield();
}

TEST_CASE("half a request is not waited for, by either door") {
  Settings settings;
  settings.receive_timeout = 20ms;
  LiveServer server(scripted(), settings);
  HttpClient half(server.port());
  half.send("POST /v1/completions HTTP/1.1\r\nHost:");
  CHECK(half.read().status == 408);
  CHECK(WireClient(server.tcp_port()).read_to_end().has_value()); // no Hello
  WireClient cut(server.tcp_port());
  cut.greet();
  const std::string frame = frame_of(net::Submit{1, request_of(5)});
  cut.send(frame.substr(0, frame.size() / 2));
  const auto failure = cut.read_to_end();
  REQUIRE(failure.has_value());
  CHECK(failure->error.message.find("was not whole") != std::string::npos);
}

TEST_CASE("a drain lets what was accepted over TCP finish, refuses what is new, and says so") {
  Settings settings;
  settings.drain_timeout = 1h;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient endless(server.port()); // while it runs, there is a server to be asked
  endless.send("POST", "/v1/completions",
               R"({"prompt": [1], "max_tokens": 60000, "stream": true})");
  CHECK(endless.read_head().status == 200);
  WireClient client(server.tcp_port());
  client.greet();
  client.send(net::Submit{1, request_of(60)});
  await<net::Accepted>(client);
  WireClient idle(server.tcp_port());
  idle.greet();
  server.drain();
  await<net::Draining>(idle);
  idle.send(net::Submit{1, request_of(1)});
  const auto refused = await<net::Failure>(idle);
  CHECK(refused.number == 1);
  CHECK((refused.error.code == ErrorCode::unavailable));
  CHECK(refused.error.text() == "the server is shutting down: ask another one");
  CHECK((outcome_of(client, 1).end->reason == FinishReason::length));
  endless.close();
  server.join();
  CHECK(!client.read_to_end());
  CHECK_THROWS(WireClient(server.tcp_port()));
}

TEST_CASE("what does not finish in a drain's time over TCP is told so") {
  Settings settings;
  settings.drain_timeout = 20ms;
  LiveServer server(scripted("sim:1ms"), settings);
  WireClient client(server.tcp_port());
  client.greet();
  client.send(net::Submit{1, request_of(60'000)});
  await<net::Accepted>(client);
  server.drain();
  const Outcome outcome = outcome_of(client, 1);
  CHECK((outcome.end->reason == FinishReason::error));
  CHECK(outcome.end->error.value().text() == "the server is shutting down: ask another one");
  server.join();
}

namespace {

/// Makes up what no honest client sends.
class Hostile {
public:
  explicit Hostile(std::uint64_t seed) : random_(seed) {}

  std::string bytes() {
    switch (below(9)) {
    case 0: return noise(1 + below(3000));
    case 1: return cut(greeting() + some_frame());
    case 2: return some_frame(); // before Hello
    case 3: return greeting() + std::string("\xff\xff\xff\xff\x7f", 5) + noise(below(100));
    case 4: return greeting() + framed(noise(below(500)));
    case 5: return greeting() + flipped(some_frame());
    case 6: return greeting() + disordered();
    case 7: return framed(std::string(net::limits::hello_bytes + 1 + below(1000), 'a'));
    default: return greeting() + wrong_values();
    }
  }

private:
  std::size_t below(std::size_t bound) { return std::size_t(random_() % bound); }
  std::string noise(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
      text += char(random_());
    return text;
  }
  static std::string framed(const std::string& message) {
    std::string frame;
    net::append_frame(frame, message);
    return frame;
  }
  static std::string greeting() { return frame_of(net::Hello{1, 1, "", "hostile"}); }
  std::string cut(const std::string& whole) { return whole.substr(0, below(whole.size())); }
  std::string flipped(std::string frame) {
    for (std::size_t i = 0; i <= below(4); ++i)
      frame[below(frame.size())] ^= char(1U << below(8));
    return frame;
  }
  std::string some_frame() {
    Request request = long_request(int(below(50)));
    request.stop = {noise(below(20)), ""};
    request.sampling.logit_bias = {{TokenId(random_()), 1.0f}};
    request.sampling.temperature = float(below(3)) - 1;
    if (below(2) == 0)
      request.deadline = std::chrono::milliseconds(below(3));
    return frame_of(net::Submit{below(3), request});
  }
  std::string disordered() {
    switch (below(4)) {
    case 0: return greeting();
    case 1: return frame_of(net::Cancel{1 + below(1000)});
    case 2: { // a number twice, and a smaller one
      const std::string once = frame_of(net::Submit{2, request_of(5)});
      return once + (below(2) == 0 ? once : frame_of(net::Submit{1, request_of(5)}));
    }
    default: return frame_of(net::Submit{0, request_of(1)});
    }
  }
  std::string wrong_values() {
    static const std::vector<std::string> messages{
        std::string("\x12\x02\x50\x63", 4),         // no such rule
        std::string("\x12\x02\x40\x63", 4),         // no such mode
        std::string("\x12\x04\x3a\x02\x40\x01", 6), // a bias without a value
        std::string("\x0a\x00\x12\x00", 4),         // two kinds: the last counts
        std::string("\x7a\x00", 2),                 // no kind that there is
        std::string(""),
        std::string("\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13)};
    return framed(messages[below(messages.size())]);
  }

  std::mt19937_64 random_;
};

} // namespace

TEST_CASE("a thousand hostile clients over TCP are each told or cut off, and the server lives") {
  LiveServer server(scripted());
  Hostile hostile(1);
  int told = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    WireClient client(server.tcp_port());
    try {
      client.send(hostile.bytes());
    } catch (const std::exception&) { // it was cut off in the middle
    }
    client.end_sending(); // so that those end too that promise more, or make sense by chance
    told += client.read_to_end().has_value();
    if (i % 100 == 0)
      CHECK(works(server));
  }
  CHECK(told > 500);
  server.await_idle();
  CHECK(server.engine().metrics().kv_pages_used == 0);
  CHECK(works(server));
}
