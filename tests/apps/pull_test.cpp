// paceline pull, list and rm, with a hub in the test's own process.
#include "tests/apps/hub_server.hpp"
#include "tests/apps/support.hpp"
#include "tests/models/quantized_gguf.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace paceline::testing;
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr const char* token = "hf_secret";
constexpr std::size_t chunk = 100'000;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Bytes that repeat nowhere within a megabyte.
std::string some_bytes(std::size_t count) {
  std::string text;
  for (std::uint32_t i = 0; text.size() < count; ++i)
    text += std::to_string(i * 2654435761u) + "\n";
  return text.substr(0, count);
}

/// A user of the program, with a hub and a home without anything else.
struct User {
  const HubServer& hub;
  TemporaryFolder home{};

  std::vector<std::string> environment(const std::string& with_token = token) const {
    return {"HOME=" + home.path(),
            "PACELINE_MODELS=" + home.file("models"),
            "HF_ENDPOINT=" + hub.url(),
            "HF_TOKEN=" + with_token,
            "XDG_CACHE_HOME=",
            "HF_HOME=",
            "HF_HUB_CACHE=",
            "OLLAMA_MODELS=",
            "no_proxy=*"};
  }
  ProcessResult run(const std::vector<std::string>& arguments,
                    const std::string& with_token = token) const {
    return run_process(paceline_command(arguments), "", environment(with_token));
  }
  ProcessResult pull(const std::string& name = "org/name:Q8_0",
                     const std::string& with_token = token) const {
    return run({"pull", name}, with_token);
  }
  json::object ask(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const auto result = run(arguments);
    INFO(result.errors);
    REQUIRE(result.status == 0);
    return json::parse(result.output).as_object();
  }
  json::array list() const { return ask({"list"}).at("models").as_array(); }
  fs::path model(const std::string& name = "name:Q8_0") const {
    return home.file("models/org/" + name);
  }
  fs::path part(const std::string& file) const {
    return home.file("models/org/.name:Q8_0.part/" + file);
  }
  /// Nothing is there under a name, whatever else is.
  bool has_nothing() const {
    const auto models = list();
    return std::ranges::all_of(models,
                               [](const json::value& m) { return m.at("kind") == "unfinished"; });
  }
};

/// A hub with one GGUF file, which nothing here opens.
struct OneFile {
  std::string content = some_bytes(3 * chunk);
  HubServer hub;
  User user{hub};

  explicit OneFile(HubServer::Change change = {}) : hub(std::move(change)) {
    hub.add("name-Q8_0.gguf", content);
  }
  std::vector<std::string> ranges() const {
    std::vector<std::string> out;
    for (const HubRequest& request : hub.requests("name-Q8_0.gguf"))
      out.push_back(request.range);
    return out;
  }
  bool is_there() const { return read(user.model() / "name-Q8_0.gguf") == content; }
};

bool is_file(const HubRequest& request) {
  return request.target.find("/resolve/") != std::string::npos;
}

void add_demo(HubServer& hub, const std::string& role) {
  for (const auto& file : fs::directory_iterator(fs::path(PACELINE_DEMO_MODELS) / role))
    hub.add(file.path().filename().string(), read(file.path()),
            file.path().extension() == ".safetensors");
}

} // namespace

TEST_CASE("a checkpoint is pulled, answers by its name, is listed and removed") {
  HubServer hub;
  add_demo(hub, "draft");
  hub.add("README.md", "no part of the model");
  hub.add("original/consolidated.safetensors", "nor this");
  hub.add("model.fp16.bin", "nor this");
  const User user{hub};
  const auto pulled = user.pull("hf:org/name");
  CHECK(pulled.status == 0);
  CHECK(pulled.errors.empty());
  CHECK(pulled.output.starts_with("org/name is here: "));
  CHECK(pulled.output.find("paceline chat -m org/name\n") != std::string::npos);
  for (const char* other : {"README.md", "consolidated.safetensors", "model.fp16.bin"})
    CHECK(hub.requests(other).empty());
  const auto all = hub.requests();
  CHECK(all.front().target == "/api/models/org/name/tree/main?recursive=true");
  CHECK(std::ranges::all_of(all, [](const HubRequest& request) {
    return request.token == std::string("Bearer ") + token;
  }));

  const auto answer = [&](const std::string& model) {
    return user
        .ask({"generate", "def f(", "-n", "8", "-d", "none", "--temperature", "0", "-m", model})
        .at("tokens");
  };
  CHECK(answer("org/name") == answer(std::string(PACELINE_DEMO_MODELS) + "/draft"));

  const auto models = user.list();
  REQUIRE(models.size() == 1);
  CHECK(models[0].at("name") == "org/name");
  CHECK(models[0].at("kind") == "safetensors");
  CHECK(models[0].at("store") == "Paceline");
  CHECK(models[0].at("bytes").to_number<std::size_t>() >
        fs::file_size(user.model("name") / "model.safetensors"));
  CHECK(user.run({"list"}).output.find("org/name  safetensors") != std::string::npos);

  CHECK(user.pull("org/name").output.starts_with("org/name is here already: "));
  CHECK(hub.requests().size() == all.size()); // Nobody was asked.
  check_complaint(user.run({"pull", "org/name", "--revision", "v2"}), 2,
                  {"revision main", "paceline rm org/name"});
  check_complaint(user.run({"rm", "org/name"}), 2, {"-y"});
  const auto removed = user.run({"rm", "org/name", "-y"});
  CHECK(removed.status == 0);
  CHECK(user.list().empty());
  CHECK(fs::is_empty(user.home.file("models")));
  check_complaint(user.run({"rm", "org/name", "-y"}), 2, {"org/name", "paceline list"});
  check_complaint(user.run({"generate", "x", "-m", "org/name"}), 2, {"paceline pull org/name"});
}

TEST_CASE("a GGUF file is pulled by its format, and drafts for another by its name") {
  const TemporaryFolder folder;
  HubServer hub;
  hub.add("gguf/name-Q4_0.gguf", read(paceline::models::test::quantized_demo(folder, "draft")));
  hub.add("gguf/name-Q8_0.gguf", "another");
  hub.add("mmproj-name-f16.gguf", "none that can be loaded");
  const User user{hub};
  check_complaint(user.pull("org/name"), 2, {"several models", "Q4_0", "Q8_0"});
  check_complaint(user.pull("org/name:Q5_K_M"), 2, {"no Q5_K_M", "Q4_0", "Q8_0"});
  const auto pulled = user.pull("org/name:q4_0");
  INFO(pulled.errors);
  CHECK(pulled.status == 0);
  CHECK(pulled.output.starts_with("org/name:Q4_0 is here: "));
  for (const char* name : {"org/name", "org/name:Q4_0", "hf:org/name:q4_0"}) {
    const auto answer =
        user.ask({"generate", "def f(", "-n", "4", "-d", name, "-m", name, "--temperature", "0"});
    CHECK(answer.at("tokens").as_array().size() == 4);
  }
  CHECK(user.list().at(0).at("kind") == "gguf");
  const auto words = user.run({"completion", "models"}).output;
  CHECK(words == "demo\nscripted\norg/name:Q4_0\n");
  CHECK(user.run({"rm", "org/name", "-y"}).output.starts_with("org/name:Q4_0 is removed"));
}

TEST_CASE("all parts of a split GGUF file are pulled, and a part that is missing is an error") {
  for (const int parts : {3, 2}) {
    HubServer hub;
    for (int i = 1; i <= parts; ++i)
      hub.add("Q8_0/name-Q8_0-0000" + std::to_string(i) + "-of-00003.gguf", some_bytes(100 + i));
    const User user{hub};
    const auto pulled = user.pull();
    if (parts == 2) {
      check_complaint(pulled, 2, {"part 3 of 3"});
      continue;
    }
    CHECK(pulled.status == 0);
    CHECK(read(user.model() / "name-Q8_0-00003-of-00003.gguf") == some_bytes(103));
    CHECK(user.list().at(0).at("bytes") == 101 + 102 + 103);
  }
}

TEST_CASE("after cuts in the middle the rest is asked for") {
  const OneFile one([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request) && request.number < 2)
      answer.cut = chunk;
  });
  const auto pulled = one.user.pull();
  CHECK(pulled.status == 0);
  CHECK(pulled.errors.empty());
  CHECK(one.is_there());
  CHECK(one.ranges() == std::vector<std::string>{"", "bytes=100000-", "bytes=200000-"});
}

TEST_CASE("a server that knows no ranges sends the file once more") {
  const OneFile one([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request) && request.number == 0)
      answer.cut = chunk;
    else if (is_file(request))
      answer = {.body = some_bytes(3 * chunk)};
  });
  CHECK(one.user.pull().status == 0);
  CHECK(one.is_there());
}

TEST_CASE("a server that sends another range than was asked for is an error") {
  const OneFile one([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request) && request.number == 0)
      answer.cut = chunk;
    else if (is_file(request))
      answer.headers = {{"Content-Range", "bytes 5-299999/300000"}};
  });
  check_complaint(one.user.pull(), 2, {"another part"});
  CHECK(one.user.has_nothing());
}

TEST_CASE("Ctrl-C keeps what has arrived, and the same command goes on from there") {
  OneFile one([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request) && request.number == 0) {
      answer.cut = chunk;
      answer.silent = true;
    }
  });
  Process process(paceline_command({"pull", "org/name:Q8_0"}), one.user.environment());
  process.close_input();
  one.hub.await_silence();
  process.send(SIGINT);
  const auto stopped = process.wait();
  check_complaint(stopped, 130, {"interrupted", "same command"});
  const auto models = one.user.list();
  REQUIRE(models.size() == 1);
  CHECK(models.at(0).at("name") == "org/name:Q8_0");
  CHECK(models.at(0).at("kind") == "unfinished");
  check_complaint(one.user.run({"generate", "x", "-m", "org/name:Q8_0"}), 2,
                  {"paceline pull org/name:Q8_0"});
  const std::size_t kept = fs::file_size(one.user.part("name-Q8_0.gguf.incomplete"));
  CHECK(kept <= chunk);
  CHECK(one.user.pull().status == 0);
  CHECK(one.is_there());
  CHECK(one.ranges().back() == (kept > 0 ? "bytes=" + std::to_string(kept) + "-" : ""));
  CHECK(one.user.list().at(0).at("kind") == "gguf");
}

TEST_CASE("what is unfinished is removed by its name") {
  const OneFile one([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request))
      answer.status = 404;
  });
  CHECK(one.user.pull().status == 2);
  CHECK(one.user.run({"rm", "org/name", "-y"}).status == 0);
  CHECK(one.user.list().empty());
}

TEST_CASE("a file with another content than its digest says is deleted, and never has a name") {
  for (const bool large : {true, false}) {
    HubServer hub([](const HubRequest& request, HubAnswer& answer) {
      if (is_file(request))
        answer.body[10] ^= 1;
    });
    hub.add("name-Q8_0.gguf", some_bytes(1000), large);
    const User user{hub};
    check_complaint(user.pull(), 2, {"name-Q8_0.gguf", "digest"});
    CHECK(user.has_nothing());
    CHECK(!fs::exists(user.part("name-Q8_0.gguf")));
    CHECK(!fs::exists(user.part("name-Q8_0.gguf.incomplete")));
    CHECK(hub.requests("name-Q8_0.gguf").size() == 1);
  }
}

TEST_CASE("a part of another revision is fetched anew, be it whole or not") {
  for (const char* ending : {"", ".incomplete"}) {
    const OneFile one;
    one.user.home.write("models/org/.name:Q8_0.part/name-Q8_0.gguf" + std::string(ending),
                        std::string(*ending ? chunk : 3 * chunk, 'x'));
    one.user.home.write("models/org/.name:Q8_0.part/stray.gguf", "of another revision");
    CHECK(one.user.pull().status == 0);
    CHECK(one.is_there());
    CHECK(!fs::exists(one.user.model() / "stray.gguf"));
  }
}

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
    CHECK(read(user.model() / "name-Q8_0.gguf") == content);
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

TEST_CASE("a list of several pages is read to its end") {
  std::string next;
  HubServer hub([&](const HubRequest& request, HubAnswer& answer) {
    if (request.target.ends_with("recursive=true"))
      answer = {.headers = {{"Link", "<" + next + ">; rel=\"next\""}}, .body = "[]"};
  });
  next = hub.url() + "/api/models/org/name/tree/main?recursive=true&cursor=2";
  hub.add("name-Q8_0.gguf", "content");
  const User user{hub};
  CHECK(user.pull().status == 0);
  CHECK(hub.requests().size() == 3);
}

TEST_CASE("a branch is asked for by its name") {
  const OneFile one;
  CHECK(one.user.run({"pull", "org/name", "--revision", "refs/pr/1"}).status == 0);
  CHECK(one.hub.requests().front().target ==
        "/api/models/org/name/tree/refs%2Fpr%2F1?recursive=true");
  CHECK(one.hub.requests().back().target == "/org/name/resolve/refs%2Fpr%2F1/name-Q8_0.gguf");
  CHECK(read(one.user.model() / ".paceline.json").find("refs/pr/1") != std::string::npos);
}

TEST_CASE("a full disk is said, what has arrived stays, and the rest comes later") {
  const OneFile one;
  std::string command = "trap '' XFSZ; ulimit -f 200; exec"; // blocks of 512 bytes
  for (const std::string& argument : paceline_command({"pull", "org/name:Q8_0"}))
    command += " '" + argument + "'";
  const auto full = run_process({"/bin/sh", "-c", command}, "", one.user.environment());
  check_complaint(full, 1, {"cannot write", "free space"});
  CHECK(one.user.has_nothing());
  CHECK(fs::file_size(one.user.part("name-Q8_0.gguf.incomplete")) == 102'400);
  CHECK(one.user.pull().status == 0);
  CHECK(one.is_there());
  CHECK(one.ranges().back() == "bytes=102400-");
}

TEST_CASE("what the disk has no room for is not begun") {
  const OneFile one([](const HubRequest& request, HubAnswer& answer) {
    const std::string size = R"("size":300000)";
    for (std::size_t at = 0;
         !is_file(request) && (at = answer.body.find(size, at)) != std::string::npos; ++at)
      answer.body.replace(at, size.size(), R"("size":17000000000000)");
  });
  check_complaint(one.user.pull(), 1, {"still to come", "make room"});
  CHECK(one.hub.requests().size() == 1);
}

TEST_CASE("two pulls of one model do not meet") {
  OneFile one([](const HubRequest& request, HubAnswer& answer) {
    if (is_file(request)) {
      answer.cut = chunk;
      answer.silent = true;
    }
  });
  Process first(paceline_command({"pull", "org/name:Q8_0"}), one.user.environment());
  first.close_input();
  one.hub.await_silence();
  // The first one has the hub: rm takes the same lock.
  check_complaint(one.user.run({"rm", "org/name", "-y"}), 1, {"another process"});
  first.send(SIGINT);
  CHECK(first.wait().status == 130);
}

TEST_CASE("models of other programs are listed, and left to them") {
  const HubServer hub;
  const User user{hub};
  user.home.write(".lmstudio/models/org/studio/studio-Q8_0.gguf", "GGUF");
  CHECK(user.list().at(0).at("store") == "LM Studio");
  check_complaint(user.run({"rm", "org/studio", "-y"}), 2, {"a model of LM Studio"});
  CHECK(fs::exists(user.home.file(".lmstudio/models/org/studio/studio-Q8_0.gguf")));
}
