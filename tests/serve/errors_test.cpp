// Every status that says no, in OpenAI's shape, and what comes after it.
#include "tests/serve/live_server.hpp"

#include <boost/json/serialize.hpp>
#include <ctime>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

void check_error(const HttpReply& reply, int status, const std::string& code) {
  INFO(reply.body);
  CHECK(reply.status == status);
  CHECK(reply.headers.at("content-type") == "application/json");
  CHECK_FALSE(reply.headers.at("x-request-id").empty());
  const auto error = reply.json().at("error").as_object();
  for (const char* key : {"message", "type", "param", "code"})
    CHECK(error.contains(key));
  CHECK_FALSE(error.at("message").as_string().empty());
  CHECK(error.at("code").as_string() == code);
}

const std::string endless = R"({"prompt": [1, 2, 3], "max_tokens": 60000, "stream": true})";

} // namespace

TEST_CASE("bad requests are told which field is wrong") {
  LiveServer server(scripted());
  const auto post = [&](const std::string& body) {
    return server.ask("POST", "/v1/completions", body);
  };
  check_error(post("{"), 400, "invalid_json");
  check_error(post("[]"), 400, "invalid_json");
  check_error(post(R"({"max_tokens": 3})"), 400, "invalid_value");
  check_error(post(R"({"prompt": "x", "best_of": 3})"), 400, "unsupported_parameter");
  CHECK(post(R"({"prompt": "x", "top_p": 3})").json().at("error").at("param") == "top_p");
  check_error(post(R"({"prompt": "x", "model": "gpt-4o"})"), 404, "model_not_found");
  std::string ids = "[1";
  for (int i = 0; i < 70'000; ++i)
    ids += ",1";
  check_error(post(R"({"prompt": )" + ids + "]}"), 400, "context_length_exceeded");
}

TEST_CASE("what is no UTF-8 in a request's head is told as UTF-8") {
  LiveServer server(scripted());
  check_error(server.ask("GET", "/%ff"), 404, "not_found");
  check_error(server.ask("GET", "/v1/models/\xff"), 404, "model_not_found");
  check_error(server.ask("POST", "/v1/completions", "{}", {{"Content-Encoding", "\xff"}}), 415,
              "unsupported_encoding");
}

TEST_CASE("a prompt that is too long is told as OpenAI tells it, without the operator's options") {
  LiveServer server;
  const int context = server.engine().target().max_model_len;
  std::string text;
  for (int i = 0; i < context; ++i)
    text += "x = 1\n";
  const std::string prompt = boost::json::serialize(boost::json::value(text));
  for (const auto& [path, body] :
       {std::pair{"/v1/completions", R"({"prompt": )" + prompt + "}"},
        std::pair{"/v1/chat/completions",
                  R"({"messages": [{"role": "user", "content": )" + prompt + "}]}"}}) {
    const HttpReply reply = server.ask("POST", path, body);
    check_error(reply, 400, "context_length_exceeded");
    const std::string limit = "maximum context length is " + std::to_string(context);
    CHECK(reply.body.find(limit) != std::string::npos);
    CHECK(reply.body.find("--") == std::string::npos);
  }
}

TEST_CASE("more answers than there are places are refused for good") {
  Settings settings;
  settings.max_open = 2;
  LiveServer server(scripted(), settings);
  check_error(server.ask("POST", "/v1/completions", R"({"prompt": [1], "n": 3})"), 400,
              "invalid_value");
}

TEST_CASE("answers say when they were sent") {
  LiveServer server(scripted());
  const std::string date = server.ask("GET", "/health").headers.at("date");
  INFO(date);
  std::tm parsed{};
  const char* end = strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parsed);
  CHECK((end != nullptr && *end == '\0'));
}

TEST_CASE("unknown paths and methods are told what there is") {
  LiveServer server(scripted());
  check_error(server.ask("GET", "/v1/embedding"), 404, "not_found");
  check_error(server.ask("POST", "/v1/embeddings", "{}"), 404, "unsupported_endpoint");
  check_error(server.ask("GET", "/v1/models/other"), 404, "model_not_found");
  const HttpReply reply = server.ask("GET", "/v1/completions");
  check_error(reply, 405, "method_not_allowed");
  CHECK(reply.headers.at("allow") == "POST");
  check_error(server.ask("DELETE", "/v1/models"), 405, "method_not_allowed");
}

TEST_CASE("an error leaves the connection usable") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  CHECK(client.ask("POST", "/v1/completions", "{").status == 400);
  CHECK(client.ask("GET", "/nowhere").status == 404);
  const HttpReply head = [&] {
    client.send("HEAD", "/health");
    return client.read_head();
  }();
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") != "0");
  CHECK(client.ask("POST", "/v1/completions", R"({"prompt": [1]})").status == 200);
}

TEST_CASE("bodies and headers that are too large are refused") {
  Settings settings;
  settings.max_body_bytes = 1000;
  LiveServer server(scripted(), settings);
  check_error(server.ask("POST", "/v1/completions", std::string(1001, ' ')), 413, "body_too_large");
  HttpClient chunked(server.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3e9\r\n" +
               std::string(1001, ' ') + "\r\n0\r\n\r\n");
  check_error(chunked.read(), 413, "body_too_large");
  check_error(server.ask("GET", "/health", "", {{"X-Long", std::string(100'000, 'x')}}), 431,
              "headers_too_large");
}

TEST_CASE("a request that does not come is told 408, an idle connection is closed") {
  Settings impatient;
  impatient.receive_timeout = 50ms;
  LiveServer server(scripted(), impatient);
  HttpClient headers(server.port());
  headers.send("POST /v1/completions HTTP/1.1\r\nHost:");
  check_error(headers.read(), 408, "request_timeout");
  CHECK(headers.ended());
  HttpClient body(server.port());
  body.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
  check_error(body.read(), 408, "request_timeout");
  Settings brief;
  brief.idle_timeout = 50ms;
  LiveServer other(scripted(), brief);
  HttpClient idle(other.port());
  CHECK(idle.ended());
}

TEST_CASE("an answer that takes too long is told 504, or in its stream") {
  Settings settings;
  settings.request_timeout = 2s; // The first token comes before, however busy the machine.
  LiveServer server(scripted("sim:10ms"), settings);
  check_error(server.ask("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 60000})"), 504,
              "deadline");
  HttpClient client(server.port());
  client.send("POST", "/v1/completions", endless);
  CHECK(client.read_head().status == 200);
  const auto events = client.read_events();
  CHECK(events.back().at("error").at("code") == "deadline");
  server.await_idle();
}

TEST_CASE("more answers than there is room for are told 429 and when to come back") {
  Settings settings;
  settings.max_open = 2;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient first(server.port());
  first.send("POST", "/v1/completions", endless);
  CHECK(first.read_head().status == 200);
  const std::string two = R"({"prompt": [1], "max_tokens": 2, "n": 2})";
  const HttpReply refused = server.ask("POST", "/v1/completions", two);
  check_error(refused, 429, "overloaded");
  CHECK(refused.headers.at("retry-after") == "1");
  CHECK(refused.json().at("error").at("type") == "rate_limit_error");
  CHECK(server.ask("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 2})").status == 200);
  first.close();
  server.await_idle();
  CHECK(server.ask("POST", "/v1/completions", two).status == 200);
}

TEST_CASE("what the engine itself refuses is told before a stream begins") {
  EngineOptions options = scripted("sim:1ms");
  options.max_num_seqs = 1;
  options.max_waiting = 0;
  LiveServer server(options); // whose own bound is larger
  HttpClient first(server.port());
  first.send("POST", "/v1/completions", endless);
  CHECK(first.read_head().status == 200);
  check_error(server.ask("POST", "/v1/completions", endless), 429, "overloaded");
}

TEST_CASE("more connections than there may be are told 503, and then just closed") {
  Settings settings;
  settings.max_connections = 3;
  LiveServer server(scripted(), settings);
  std::vector<std::unique_ptr<HttpClient>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<HttpClient>(server.port()));
    CHECK(open.back()->ask("GET", "/health").status == 200);
  }
  check_error(server.ask("GET", "/health"), 503, "too_many_connections");
  open.clear();
  while (server.ask("GET", "/health").status != 200)
    std::this_thread::yield();
}

TEST_CASE("a request that could be read in two ways is refused, and the connection with it") {
  LiveServer server(scripted());
  const std::string line = "POST /v1/completions HTTP/1.1\r\n";
  for (const std::string& head :
       {line + "Host: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        line + "Host: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{} ",
        line + "Host: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        line + "Host: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        line + "Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        line + "Host: x\r\nHost: y\r\nContent-Length: 2\r\n\r\n{}",
        line + "Content-Length: 2\r\n\r\n{}", line + "Host: x\r\nContent-Length: -1\r\n\r\n",
        line + "Host: x\r\nContent-Length : 2\r\n\r\n{}",
        std::string("POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        std::string("POST /v1/completions HTTP/3.0\r\nHost: x\r\n\r\n")}) {
    CAPTURE(head);
    HttpClient client(server.port());
    client.send(head);
    const HttpReply reply = client.read();
    CHECK((reply.status == 400 || reply.status == 413));
    CHECK(client.ended());
  }
}
