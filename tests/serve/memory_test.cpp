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
namespace json = boost::json;

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

TokenId longest_token(LiveServer& server) {
  TokenId longest = 0;
  for (TokenId id = 0; id < server.engine().target().vocabulary; ++id)
    if (server.engine().token_bytes(id).size() > server.engine().token_bytes(longest).size())
      longest = id;
  return longest;
}

/// Returns the share of a request's processor time that the thread took on which all clients wait.
double share_of_thread(LiveServer& server, const char* path, const std::string& body) {
  const double thread = server.thread_seconds();
  const double all = processor_seconds(server);
  CHECK(server.ask("POST", path, body).status != 0);
  return (server.thread_seconds() - thread) / (processor_seconds(server) - all);
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

TEST_CASE("nobody waits while much is read that is no prompt, or much is written") {
  LiveServer server;
  std::string text;
  while (text.size() < (std::size_t(8) << 20))
    text += "for i in range(10):\n    print(i)\n";
  const json::array asked{json::object{{"role", "user"}, {"content", "x"}}};
  CHECK(share_of_thread(server, "/v1/completions",
                        json::serialize(json::object{{"prompt", "x"}, {"bad_words", {text}}})) <
        0.3);
  CHECK(share_of_thread(server, "/v1/chat/completions",
                        json::serialize(json::object{{"messages", asked},
                                                     {"max_tokens", 1},
                                                     {"chat_template_kwargs", {{"v", text}}}})) <
        0.3);
  const json::array ids(1'000'000, longest_token(server));
  CHECK(share_of_thread(server, "/detokenize", json::serialize(json::object{{"tokens", ids}})) <
        0.3);
  const json::array prompt(512, 100);
  CHECK(share_of_thread(
            server, "/v1/completions",
            json::serialize(json::object{
                {"prompt", prompt}, {"max_tokens", 1}, {"n", 16}, {"prompt_logprobs", 20}})) < 0.1);
}

TEST_CASE("the scores of a prompt count before there are any, for each answer") {
  Settings settings;
  settings.max_request_memory = std::size_t(4) << 20;
  LiveServer server(demo_pair(), settings);
  json::object body{{"prompt", json::array(512, 100)}, {"max_tokens", 1}, {"echo", true}};
  body["logprobs"] = 20;
  CHECK(server.ask("POST", "/v1/completions", json::serialize(body)).status == 200);
  body["n"] = 8;
  const HttpReply refused = server.ask("POST", "/v1/completions", json::serialize(body));
  CHECK(refused.status == 503);
  CHECK(refused.json().at("error").at("code") == "request_memory");
}

TEST_CASE("names count as long as an answer is under way") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  client.send("POST", "/v1/completions",
              json::serialize(json::object{{"prompt", {1}},
                                           {"max_tokens", 60'000},
                                           {"stream", true},
                                           {"user", std::string(1 << 20, 'x')}}));
  CHECK(client.read_head().status == 200);
  CHECK(server.metric("paceline_request_memory_bytes{") >= 1 << 20);
  client.close();
  server.await_idle();
  CHECK(server.metric("paceline_request_memory_bytes{") == 0);
}

TEST_CASE("a reply made of ids counts until it is read") {
  LiveServer server;
  const TokenId longest = longest_token(server);
  const json::array ids(200'000, longest);
  const std::string body = json::serialize(json::object{{"tokens", ids}});
  const std::size_t reply = ids.size() * server.engine().token_bytes(longest).size();
  REQUIRE(reply > 2 * body.size());
  HttpClient client(server.port(), 4096);
  client.send("POST", "/detokenize", body);
  while (client.socket().available() == 0)
    std::this_thread::yield();
  CHECK(server.metric("paceline_request_memory_bytes{") >= double(reply));
}
