// paceline pull with hubs that send on, refuse, are busy, or lie.
#include "tests/apps/pull_user.hpp"

#include <csignal>

using namespace paceline::testing;
namespace fs = std::filesystem;

TEST_CASE("more bytes than were listed, and fewer, are errors") {
  for (const bool more : {true, false}) {
    const OneFile one([&](const HubRequest& request, HubAnswer& answer) {
      if (is_file(request) && request.number == 0)
        answer.body = more ? answer.body + "x" : answer.body.substr(0, chunk);
      else if (is_file(request)) // There is no more.
        answer = {.status = 416};
    });
    const auto pulled = one.user.pull();
    check_complaint(pulled, more ? 2 : 1, {more ? "more of" : "HTTP 416"});
    CHECK(one.user.has_nothing());
  }
}

TEST_CASE("the token is not sent to where the hub redirects") {
  const std::string content = some_bytes(1000);
  HubServer other([&](const HubRequest&, HubAnswer& answer) { answer = {.body = content}; });
  for (const char* host : {"127.0.0.1", "localhost"}) { // Another port, and another name.
    HubServer hub([&](const HubRequest& request, HubAnswer& answer) {
      if (is_file(request))
        answer = {.status = 302, .headers = {{"Location", other.url(host) + "/cdn/file?signed=1"}}};
    });
    hub.add("name-Q8_0.gguf", content);
    const User user{hub};
    CHECK(user.pull().status == 0);
    CHECK(read_file(user.model() / "name-Q8_0.gguf") == content);
    for (const HubRequest& request : hub.requests())
      CHECK(request.token == std::string("Bearer ") + token);
  }
  CHECK(other.requests().size() == 2);
  for (const HubRequest& request : other.requests())
    CHECK(request.token.empty());
}

TEST_CASE("a redirect within the hub is followed with the token, and one without end is not") {
  HubServer hub([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request) && request.target.ends_with("gguf"))
      answer = {.status = 307, .headers = {{"Location", request.target + "?moved"}}};
    else if (is_file(request))
      answer = {.body = "content"};
  });
  hub.add("name-Q8_0.gguf", "content");
  const User user{hub};
  CHECK(user.pull().status == 0);
  CHECK(hub.requests().back().token == std::string("Bearer ") + token);
  const OneFile endless([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request))
      answer = {.status = 302, .headers = {{"Location", request.target}}};
  });
  check_complaint(endless.user.pull(), 1, {"redirects"});
}

TEST_CASE("a refusal says what to do") {
  struct Case {
    int status;
    const char* code;
    const char* given;
    std::vector<std::string> words;
  };
  for (const Case& c : {Case{401, "GatedRepo", "", {"terms", "/org/name", "HF_TOKEN"}},
                        Case{401, "RepoNotFound", "", {"org/name", "HTTP 401", "set HF_TOKEN"}},
                        Case{401, "", token, {"does not take HF_TOKEN", "/settings/tokens"}},
                        Case{403, "GatedRepo", token, {"terms", "/org/name"}},
                        Case{403, "", token, {"HTTP 403", "may read"}},
                        Case{404, "RepoNotFound", token, {"no org/name", "check the name"}},
                        Case{404, "RevisionNotFound", token, {"no revision main", "--revision"}}}) {
    CAPTURE(c.status);
    CAPTURE(c.code);
    const OneFile one([&](const HubRequest&, HubAnswer& answer) {
      answer = {.status = c.status, .headers = {{"X-Error-Code", c.code}}};
    });
    check_complaint(one.user.pull("org/name:Q8_0", c.given), 2, c.words);
    CHECK(one.hub.requests().size() == 1);
    CHECK(one.hub.requests().front().token.empty() == !*c.given);
  }
}

TEST_CASE("a hub that is busy is asked again as it says, a bounded number of times") {
  const OneFile once([](const HubRequest& request, HubAnswer& answer) {
    if (request.number == 0)
      answer = {.status = is_file(request) ? 503 : 429, .headers = {{"Retry-After", "0"}}};
  });
  CHECK(once.user.pull().status == 0);
  CHECK(once.is_there());
  const OneFile always([](const HubRequest&, HubAnswer& answer) {
    answer = {.status = 429, .headers = {{"Retry-After", "0"}}};
  });
  check_complaint(always.user.pull("org/name", ""), 1, {"HTTP 429", "HF_TOKEN"});
  CHECK(always.hub.requests().size() == 6);
  const OneFile long_wait([](const HubRequest&, HubAnswer& answer) {
    answer = {.status = 429, .headers = {{"Retry-After", "86400"}}};
  });
  check_complaint(long_wait.user.pull(), 1, {"HTTP 429", "86400 s"});
  CHECK(long_wait.hub.requests().size() == 1);
}

TEST_CASE("Ctrl-C ends a pause between tries") {
  const OneFile one([](const HubRequest&, HubAnswer& answer) {
    answer = {.status = 429, .headers = {{"Retry-After", "300"}}};
  });
  Process process(paceline_command({"pull", "org/name"}), one.user.environment());
  process.close_input();
  process.await_blocked(SIGINT);
  while (one.hub.requests().empty())
    std::this_thread::yield();
  process.send(SIGINT);
  const auto stopped = process.wait();
  CHECK(stopped.status == 130);
  CHECK(stopped.errors.find("interrupted") != std::string::npos);
}

TEST_CASE("a hub that is not there is said at once") {
  std::string gone;
  {
    const HubServer hub;
    gone = hub.url();
  }
  const HubServer hub;
  const User user{hub};
  auto environment = user.environment();
  environment[2] = "HF_ENDPOINT=" + gone;
  check_complaint(run_process(paceline_command({"pull", "org/name"}), "", environment), 1,
                  {"cannot fetch from " + gone, "HF_ENDPOINT"});
  environment[2] = "HF_ENDPOINT=ftp://hub";
  check_complaint(run_process(paceline_command({"pull", "org/name"}), "", environment), 2,
                  {"HF_ENDPOINT"});
  check_complaint(user.pull("org/name", "a\nb"), 2, {"HF_TOKEN"});
  for (const char* name : {"name", "a/b/c", "../x", "org/name:../x", "/etc"})
    check_complaint(user.pull(name), 2, {"ORG/NAME"});
  check_complaint(user.run({"pull"}), 2, {"name"});
  CHECK(hub.requests().empty());
}

TEST_CASE("names that could leave the folder are refused, and nothing is written") {
  for (const char* path : {"../name-Q8_0.gguf", "/tmp/name-Q8_0.gguf", "a/../../name-Q8_0.gguf",
                           "a\\..\\name-Q8_0.gguf", "a//name-Q8_0.gguf", ".", "a\nb.gguf"}) {
    CAPTURE(path);
    HubServer hub;
    hub.add(path, "hostile");
    const User user{hub};
    check_complaint(user.pull(), 2, {"could leave its folder"});
    CHECK(hub.requests().size() == 1);
    CHECK(user.home.entries() == 0);
  }
}

TEST_CASE("a list that is none, or goes on elsewhere, is refused") {
  for (const char* body : {"", "{}", "[1]", "[[", R"([{"type": "file", "path": "x.gguf"}])",
                           R"([{"type": "file", "path": "x.gguf", "size": -1, "oid": "x"}])"}) {
    CAPTURE(body);
    const OneFile one([&](const HubRequest&, HubAnswer& answer) { answer.body = body; });
    check_complaint(one.user.pull(), 2, {"list of files"});
  }
  const OneFile elsewhere([](const HubRequest&, HubAnswer& answer) {
    answer.headers = {
        {"Link", "<http://localhost:1/api/models/org/name/tree/main?x>; rel=\"next\""}};
  });
  check_complaint(elsewhere.user.pull(), 2, {"elsewhere"});
}
