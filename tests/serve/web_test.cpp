// The page at /, its files, and what a browser is told about them.
#include "apps/server/web.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <string>

using namespace paceline;
using namespace paceline::apps::serve;
using namespace paceline::testing;

TEST_CASE("the page comes with a policy that lets it run nothing but its own files") {
  LiveServer server(scripted());
  const HttpReply page = server.ask("GET", "/");
  CHECK(page.status == 200);
  CHECK(page.headers.at("content-type") == "text/html; charset=utf-8");
  CHECK(page.body.starts_with("<!doctype html>"));
  const std::string policy = page.headers.at("content-security-policy");
  for (const char* part : {"default-src 'none'", "script-src 'self'", "connect-src 'self'",
                           "frame-ancestors 'none'", "require-trusted-types-for 'script'"}) {
    CAPTURE(part);
    CHECK(policy.find(part) != std::string::npos);
  }
  CHECK(policy.find("unsafe") == std::string::npos);
  CHECK(page.headers.at("x-content-type-options") == "nosniff");
  CHECK(page.headers.at("referrer-policy") == "no-referrer");
}

TEST_CASE("each file of the page is served, and names no other host") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  CHECK(web_files().size() > 5);
  for (const WebFile& file : web_files()) {
    CAPTURE(file.name);
    const HttpReply reply = client.ask("GET", "/web/" + std::string(file.name));
    CHECK(reply.status == 200);
    CHECK(reply.body == file.content);
    CHECK(reply.headers.at("content-type") != "text/plain; charset=utf-8");
    // A drawing names its format by an address that nobody asks for.
    if (!file.name.ends_with(".svg"))
      CHECK(reply.body.find("://") == std::string::npos);
    for (const char* unsafe : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                               "eval(", "new Function"})
      CHECK(reply.body.find(unsafe) == std::string::npos);
  }
  for (const char* none : {"/web/none.js", "/web/../serve.cpp", "/web/%2e%2e/serve.cpp", "/web/",
                           "/web/style.css/", "/web"}) {
    CAPTURE(none);
    CHECK(client.ask("GET", none).status == 404);
  }
  CHECK(client.ask("POST", "/").status == 405);
}

TEST_CASE("a browser that has the page already is told so, and HEAD has no body") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  const std::string tag = client.ask("GET", "/").headers.at("etag");
  const HttpReply same = client.ask("GET", "/", "", {{"If-None-Match", tag}});
  CHECK(same.status == 304);
  CHECK(same.body.empty());
  CHECK(same.headers.count("content-length") == 0);
  CHECK(same.headers.at("etag") == tag);
  CHECK(client.ask("GET", "/", "", {{"If-None-Match", "\"another\", " + tag}}).status == 304);
  CHECK(client.ask("GET", "/", "", {{"If-None-Match", "\"another\""}}).status == 200);
  CHECK(client.ask("GET", "/").status == 200); // of no earlier request
  client.send("HEAD", "/");
  const HttpReply head = client.read_head();
  CHECK(head.status == 200);
  CHECK(std::stoi(head.headers.at("content-length")) > 100);
  CHECK(client.ask("GET", "/version").status == 200); // nothing of a body is in between
}

TEST_CASE("the page needs no key, since it has to ask for one; --no-web takes it away") {
  const TemporaryFolder folder;
  Settings settings;
  settings.api_key_file = folder.write("keys", "secret\n");
  {
    LiveServer server(scripted(), settings);
    CHECK(server.ask("GET", "/").status == 200);
    CHECK(server.ask("GET", "/web/main.js").status == 200);
  }
  settings.web = false;
  LiveServer server(scripted(), settings);
  for (const char* path : {"/", "/web/main.js", "/v1/timeline"}) {
    CAPTURE(path);
    const HttpReply reply = server.ask("GET", path, "", {{"Authorization", "Bearer secret"}});
    CHECK(reply.status == 404);
    CHECK(reply.body.find("--no-web") != std::string::npos);
  }
}
