// Web pages of other origins: only those that the operator names may ask.
#include "tests/serve/live_server.hpp"

#include <doctest/doctest.h>

using namespace paceline::testing;
using paceline::apps::serve::Settings;

namespace {

const HttpClient::Headers preflight{{"Origin", "https://page.example"},
                                    {"Access-Control-Request-Method", "POST"},
                                    {"Access-Control-Request-Headers", "authorization,x-custom"}};
constexpr const char* two_tokens = R"({"prompt": [1], "max_tokens": 2})";

} // namespace

TEST_CASE("pages of an allowed origin may ask, and are told so, others are not") {
  Settings settings;
  settings.allowed_origins = {"https://page.example", "http://localhost:3000"};
  LiveServer server(scripted(), settings);
  const HttpReply asked = server.ask("OPTIONS", "/v1/completions", "", preflight);
  CHECK(asked.status == 204);
  CHECK(asked.headers.at("access-control-allow-origin") == "https://page.example");
  CHECK(asked.headers.at("access-control-allow-methods").find("POST") != std::string::npos);
  CHECK(asked.headers.at("access-control-allow-headers") == "authorization,x-custom");
  const HttpReply answered =
      server.ask("POST", "/v1/completions", two_tokens, {{"Origin", "https://page.example"}});
  CHECK(answered.status == 200);
  CHECK(answered.headers.at("access-control-allow-origin") == "https://page.example");
  CHECK(answered.headers.at("vary") == "Origin");
  const HttpReply other =
      server.ask("POST", "/v1/completions", two_tokens, {{"Origin", "https://x"}});
  CHECK(other.headers.count("access-control-allow-origin") == 0);
  CHECK(server
            .ask("OPTIONS", "/v1/completions", "",
                 {{"Origin", "https://x"}, {"Access-Control-Request-Method", "POST"}})
            .status == 405);
  CHECK(server.ask("OPTIONS", "/v1/completions").status == 405);
}

TEST_CASE("no page of another origin may ask unless the operator says so, or any where he does") {
  LiveServer closed(scripted());
  CHECK(closed.ask("OPTIONS", "/v1/completions", "", preflight).status == 405);
  Settings settings;
  settings.allowed_origins = {"*"};
  LiveServer open(scripted(), settings);
  CHECK(open.ask("OPTIONS", "/v1/models", "", preflight).status == 204);
  HttpClient client(open.port()); // errors can be read, too, and a connection goes on
  CHECK(client.ask("OPTIONS", "/v1/models", "", preflight).status == 204);
  CHECK(client.ask("POST", "/v1/completions", "{", {{"Origin", "null"}})
            .headers.at("access-control-allow-origin") == "null");
}
