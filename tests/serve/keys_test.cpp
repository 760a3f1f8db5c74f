// API keys.
#include "apps/server/keys.hpp"
#include "apps/server/loopback.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace paceline;
using namespace paceline::apps::serve;
using namespace paceline::testing;

TEST_CASE("keys come from a file, one a line, and nothing else is accepted") {
  const TemporaryFolder folder;
  const std::string file = folder.write("keys", "# operators\nfirst-key\n\n  second-key \r\n");
  const Keys keys = Keys::load(file).value();
  CHECK(keys.required());
  for (const char* good :
       {"Bearer first-key", "bearer first-key", "Bearer second-key", "Bearer  second-key "})
    CHECK(keys.accept(good));
  for (const char* bad : {"", "first-key", "Bearer", "Bearer ", "Bearer first", "Bearer first-keyx",
                          "Bearer First-key", "Bearer # operators", "Basic first-key",
                          "Bearer first-key second-key"}) {
    CAPTURE(bad);
    CHECK_FALSE(keys.accept(bad));
  }
}

TEST_CASE("behind a key its share may stand, and nothing else") {
  const TemporaryFolder folder;
  const Keys keys = Keys::load(folder.write("keys", "plain\nlarge  weight=20\n")).value();
  CHECK(keys.accept("Bearer large"));
  CHECK(keys.holder("Bearer large").weight == 20);
  CHECK(keys.holder("Bearer plain").weight == 1);
  CHECK(keys.holder("Bearer plain").name != keys.holder("Bearer large").name);
  for (const char* line : {"key weight=0", "key weight=1001", "key weight=2.5", "key weight=2 3",
                           "key weight=", "key 3"}) {
    CAPTURE(line);
    const auto wrong = Keys::load(folder.write("wrong", std::string("first\n") + line));
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().message.find("line 2 of ") == 0);
  }
}

TEST_CASE("a file without keys, or none, is an error: it must not let everybody in") {
  const TemporaryFolder folder;
  const std::string empty = folder.write("keys", "# nothing yet\n\n");
  CHECK(Keys::load(empty).error().code == ErrorCode::invalid_argument);
  CHECK(Keys::load("/no/such/keys").error().code == ErrorCode::not_found);
}

TEST_CASE("keys come from the environment where no file is named") {
  setenv("PACELINE_API_KEY", "one, two", 1);
  const Keys keys = Keys::load("").value();
  unsetenv("PACELINE_API_KEY");
  CHECK(keys.accept("Bearer one"));
  CHECK(keys.accept("Bearer two"));
  CHECK_FALSE(keys.accept("Bearer one, two"));
  CHECK_FALSE(Keys::load("").value().required());
}

TEST_CASE("without a key only the watching endpoints answer, and bodies are not even read") {
  const TemporaryFolder folder;
  const std::string file = folder.write("keys", "secret\n");
  Settings settings;
  settings.api_key_file = file;
  LiveServer server(scripted(), settings);
  const HttpClient::Headers key{{"Authorization", "Bearer secret"}};
  const std::string body = R"({"prompt": [1], "max_tokens": 1})";
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    CAPTURE(path);
    const HttpReply reply = server.ask("POST", path, body);
    CHECK(reply.status == 401);
    CHECK(reply.headers.at("www-authenticate") == "Bearer");
    CHECK(reply.json().at("error").at("type") == "authentication_error");
    CHECK(reply.json().at("error").at("code") == "invalid_api_key");
  }
  CHECK(server.ask("GET", "/v1/models").status == 401);
  CHECK(server.ask("GET", "/v1/models", "", key).status == 200);
  CHECK(server.ask("POST", "/v1/completions", body, key).status == 200);
  CHECK(server.ask("POST", "/v1/completions", body, {{"Authorization", "Bearer Secret"}}).status ==
        401);
  for (const char* path : {"/health", "/ready", "/version", "/metrics"})
    CHECK(server.ask("GET", path).status == 200);

  HttpClient client(server.port()); // refused before the body has come
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  CHECK(client.read().status == 401);
  CHECK(client.ended());
}

TEST_CASE("answers to one key's holder are no drafts for another's, unless they are shared") {
  const TemporaryFolder folder;
  for (const bool share : {false, true}) {
    CAPTURE(share);
    Settings settings;
    settings.api_key_file = folder.write("keys", "first\nsecond\n");
    settings.share_drafts = share;
    EngineOptions engine = scripted();
    engine.drafters = {"suffix"};
    engine.speculation = SpeculationMode::sync;
    engine.window = 4;
    LiveServer server(engine, settings);
    const auto accepted = [&server](const std::string& key) {
      const HttpReply reply = server.ask(
          "POST", "/v1/completions",
          R"({"prompt": [1, 2, 3], "max_tokens": 200, "ignore_eos": true, "temperature": 1, "seed": 3})",
          {{"Authorization", "Bearer " + key}});
      INFO(reply.body);
      REQUIRE(reply.status == 200);
      const auto body = reply.json();
      return body.at("usage").at("speculation").at("accepted").to_number<int>();
    };
    const int alone = accepted("first");
    CHECK(accepted("first") > alone + 50); // it says the same again
    CHECK((accepted("second") > alone + 50) == share);
  }
}

TEST_CASE("what one key's holder has sent is not cached for another's, unless it is shared") {
  const TemporaryFolder folder;
  for (const bool share : {false, true}) {
    CAPTURE(share);
    Settings settings;
    settings.api_key_file = folder.write("keys", "first\nsecond\n");
    settings.share_prefix_cache = share;
    LiveServer server(scripted(), settings);
    const auto cached = [&server](const std::string& key, const std::string& more) {
      std::string prompt = "1";
      for (int token = 2; token < 30; ++token)
        prompt += "," + std::to_string(token);
      const HttpReply reply = server.ask(
          "POST", "/v1/completions", R"({"max_tokens": 1, "prompt": [)" + prompt + "]" + more + "}",
          {{"Authorization", "Bearer " + key}});
      INFO(reply.body);
      REQUIRE(reply.status == 200);
      return reply.json().at("usage").at("prompt_tokens_details").at("cached_tokens") != 0;
    };
    CHECK_FALSE(cached("first", ""));
    CHECK(cached("first", ""));
    CHECK(cached("second", "") == share);
    const std::string salt = R"(, "cache_salt": "a conversation's own")";
    CHECK_FALSE(cached("first", salt)); // narrower than the key's
    CHECK(cached("first", salt));
    CHECK(cached("second", salt) == share);
    CHECK_FALSE(cached("second", R"(, "cache_salt": "another's")"));
  }
}

TEST_CASE("an address that this machine alone reaches needs no key") {
  for (const char* host : {"127.0.0.1", "127.9.8.7", "::1", "localhost", "LocalHost", "a.localhost",
                           "::ffff:127.0.0.1"})
    CHECK(is_loopback(host));
  for (const char* host :
       {"0.0.0.0", "::", "10.0.0.1", "example.org", "notlocalhost", "", "128.0.0.1"})
    CHECK_FALSE(is_loopback(host));
}
