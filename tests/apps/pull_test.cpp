// paceline pull, list and rm, with a hub in the test's own process.
#include "tests/apps/pull_user.hpp"
#include "tests/models/quantized_gguf.hpp"

#include <csignal>

using namespace paceline::testing;
namespace fs = std::filesystem;

namespace {

void add_demo(HubServer& hub, const std::string& role) {
  for (const auto& file : fs::directory_iterator(fs::path(PACELINE_DEMO_MODELS) / role))
    hub.add(file.path().filename().string(), read_file(file.path()),
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
  hub.add("gguf/name-Q4_0.gguf",
          read_file(paceline::models::test::quantized_demo(folder, "draft")));
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
    CHECK(read_file(user.model() / "name-Q8_0-00003-of-00003.gguf") == some_bytes(103));
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
  CHECK(read_file(one.user.model() / ".paceline.json").find("refs/pr/1") != std::string::npos);
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

TEST_CASE("what others have put into a model's place is not touched") {
  const OneFile one;
  const std::string theirs = one.user.home.write("models/org/name:Q8_0/theirs", "x");
  check_complaint(one.user.pull(), 2, {"in the way", "PACELINE_MODELS"});
  CHECK(one.hub.requests().empty());
  CHECK(read_file(theirs) == "x");
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
