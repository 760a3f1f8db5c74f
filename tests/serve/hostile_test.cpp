// What no honest client sends: each is answered 4xx or cut off, and the server lives on.
#include "tests/serve/live_server.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

/// Makes up requests, each wrong in some way.
class Hostile {
public:
  explicit Hostile(std::uint64_t seed) : random_(seed) {}

  std::string request() {
    switch (below(8)) {
    case 0: return noise();
    case 1: return broken_line();
    case 2: return smuggled();
    case 3: return endless_headers();
    case 4: return broken_chunks();
    default: return with_body(body());
    }
  }

private:
  std::size_t below(std::size_t bound) { return std::size_t(random_() % bound); }
  template <std::size_t N>
  std::string one_of(const char* const (&list)[N]) {
    return list[below(N)];
  }
  std::string bytes(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
      text += char(random_());
    return text;
  }

  std::string noise() { return bytes(1 + below(3000)) + "\r\n\r\n"; }
  std::string broken_line() {
    const std::string method = one_of({"POST", "post", "", "P\tOST", "GET GET", "\x01"});
    const std::string target = one_of({"", "v1", "/v1/completions\r", "*", "/%zz", "/../../etc",
                                       "//", "/v1/completions HTTP/1.1\r\nX: "});
    const std::string version = one_of({"HTTP/9.9", "HTTP/1.1.1", "HTTP/1", "http/1.1", "", "ICY"});
    return method + " " + target + " " + version + "\r\nHost: x\r\n\r\n";
  }
  std::string smuggled() {
    const std::string framing =
        one_of({"Content-Length: 5\r\nContent-Length: 6", "Content-Length: +5",
                "Content-Length: 5, 6", "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "Content-Length: 0x5", "Transfer-Encoding: xchunked",
                "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity",
                "Transfer-Encoding:\x0b"
                "chunked",
                "Transfer-Encoding : chunked", "Content-Length: 99999999999999999999999",
                "Content-Length: -1", "Content-Length: 1e3", "Host: y", "Content Length: 5"});
    return "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + framing +
           "\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n";
  }
  std::string endless_headers() {
    std::string request = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n";
    const bool one = below(2) == 0;
    while (request.size() < 3 * apps::limits::header_bytes)
      request += one ? std::string(1000, 'a') : fmt::format("X-{}: {}\r\n", below(1000), bytes(5));
    return request;
  }
  std::string broken_chunks() {
    const std::string chunks =
        one_of({"zz\r\nabc\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", "-1\r\n\r\n", "5\r\nabc",
                "3\r\nabcd\r\n0\r\n\r\n", "3;\x01\r\n{}x\r\n0\r\n\r\n", "\r\n\r\n\r\n"});
    return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunks;
  }

  std::string with_body(const std::string& body) {
    const std::string path =
        one_of({"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"});
    return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", path,
                       body.size(), body);
  }
  std::string body() {
    switch (below(5)) {
    case 0: return bytes(below(2000));
    case 1: return nested();
    case 2: return R"({"prompt": ")" + bytes(1 + below(20)) + "\xff\"}";
    case 3: return cut();
    default: return wrong_field();
    }
  }
  std::string nested() {
    const std::size_t depth = 100 + below(100'000);
    return R"({"prompt": )" + std::string(depth, below(2) == 0 ? '[' : '{');
  }
  std::string cut() { // no prompt, no messages, no tokens before it is cut
    const std::string whole = R"({"temperature": 0.5, "n": 3, "stop": ["a", "b"], "x": {"y": []}})";
    return whole.substr(0, below(whole.size()));
  }
  /// A value that no field named takes, in a body that would do otherwise.
  std::string wrong_field() {
    const std::string field =
        one_of({"max_tokens", "temperature", "n", "stop", "logit_bias", "stream", "seed", "top_k",
                "speculation", "model", "prompt", "messages", "tokens"});
    const std::string value = one_of({"-1e400", "{\"a\": [null]}", "[[[]]]", "[{}]",
                                      "-99999999999999999999", "{\"-1\": 5}", "{\"0\": \"x\"}"});
    return R"({"add_special_tokens": 7, "prompt": 7, "messages": 7, "tokens": 7, ")" + field +
           "\": " + value + "}";
  }

  std::mt19937_64 random_;
};

/// Asks again where the server's patience was over before it had read a good request, as it may be
/// on a busy machine.
int status_of_good_request(const LiveServer& server) {
  int status = 408;
  for (int tries = 0; status == 408 && tries < 1000; ++tries)
    status = server.ask("POST", "/v1/completions", R"({"prompt": [1]})").status;
  return status;
}

} // namespace

TEST_CASE("a thousand hostile requests are each answered 4xx or cut off, and the server lives") {
  Settings settings;
  settings.receive_timeout = 20ms; // for those that promise more than they send
  LiveServer server(scripted(), settings);
  Hostile hostile(1);
  std::map<int, int> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string request = hostile.request();
    CAPTURE(i);
    CAPTURE(request.substr(0, 300));
    HttpClient client(server.port());
    client.send(request);
    const HttpReply reply = client.read();
    CHECK((reply.status == 0 || (reply.status >= 400 && reply.status < 500)));
    ++seen[reply.status];
    if (i % 100 == 0)
      CHECK(status_of_good_request(server) == 200);
  }
  CHECK(seen[400] > 100);
  CHECK(seen[431] > 20);
  CHECK(seen[404] + seen[405] + seen[408] + seen[413] > 10);
  server.await_idle();
  CHECK(status_of_good_request(server) == 200);
}
