// chat, race and completion where nothing is a terminal.
#include "tests/apps/support.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace paceline::testing;

namespace {

bool plain(const ProcessResult& result) {
  return (result.output + result.errors).find('\x1b') == std::string::npos;
}

} // namespace

TEST_CASE("through a pipe each line is a message, and only answers go to standard output") {
  const TemporaryFolder folder;
  const std::string file = folder.file("talk.json");
  const auto result = run_paceline({"chat", "-n", "12", "--temperature", "0", "--color"},
                                   "def f(x):\n/save " + file + "\n\n/system # short\nx = \\\n1\n");
  CHECK(result.status == 0);
  CHECK(plain(result));
  CHECK(result.errors.find("[length] 12 tokens") != std::string::npos);
  CHECK(result.output.find("tokens") == std::string::npos);
  CHECK(result.output.find('>') == std::string::npos);
  std::ifstream saved(file);
  const auto talk = boost::json::parse(std::string(std::istreambuf_iterator<char>(saved), {}));
  const auto& messages = talk.at("messages").as_array();
  REQUIRE(messages.size() == 2);
  const std::string first(messages[1].at("content").as_string());
  CHECK(result.output.starts_with(first + "\n"));
  const auto again = run_paceline({"chat", "-n", "12", "--temperature", "0", "-q"},
                                  "/load " + file + "\n/reset\ndef f(x):");
  CHECK(again.output == first + "\n"); // a last line may lack its end
}

TEST_CASE("all of a pipe may be one message") {
  const std::string text = "/help\n\nclass A:\n";
  const auto result = run_paceline({"chat", "--whole", "-n", "4", "--temperature", "0"}, text);
  INFO(result.errors);
  CHECK(result.status == 0);
  CHECK_FALSE(result.output.empty());
  CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == 1); // figures, once
  const auto quoted = run_paceline({"chat", "-n", "4", "--temperature", "0", "-q"},
                                   "\"\"\"\n" + text + "\n\"\"\"\n");
  CHECK(result.output == quoted.output);
}

TEST_CASE("where the context is full a chat says so") {
  const auto result = run_paceline({"chat", "-c", "64", "-n", "1000", "--ignore-eos"}, "x\n");
  CHECK(result.status == 0);
  CHECK(result.errors.find("The context of 64 tokens is full") != std::string::npos);
}

TEST_CASE("a chat whose context is full lets the oldest messages go if it may, and says so") {
  const TemporaryFolder folder;
  const std::string file = folder.file("talk.json");
  std::string said;
  for (int i = 0; i < 12; ++i)
    said += "def f(x):\n";
  const auto run = [](std::vector<std::string> more, const std::string& input) {
    std::vector<std::string> words{"chat", "-c", "128", "-n", "16", "--temperature", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return run_paceline(words, input);
  };
  const auto ended = run({}, said);
  CHECK(ended.status == 2);
  CHECK(
      ended.errors.find("and the model's context 128: /reset begins anew, and /context-shift on") !=
      std::string::npos);
  const auto shifted = run({"--context-shift"}, said + "/save " + file + "\n");
  INFO(shifted.errors);
  CHECK(shifted.status == 0);
  CHECK(shifted.errors.find("the model no longer reads the oldest") != std::string::npos);
  std::ifstream saved(file);
  const auto talk = boost::json::parse(std::string(std::istreambuf_iterator<char>(saved), {}));
  CHECK(talk.at("messages").as_array().size() == 24); // all of them, also those not read any more
  CHECK(run({"-q"}, "/context-shift on\n" + said).output == shifted.output);
  check_complaint(run({"--context-shift"}, std::string(600, 'x') + "\n"), 2,
                  {"what was said last has", "say less"});
  check_complaint(run({}, "/context-shift maybe\n"), 2, {"on or off"});
}

TEST_CASE("through a pipe an error ends the chat") {
  check_complaint(run_paceline({"chat"}, "/load /no/such/file\n"), 2, {"/no/such/file"});
  check_complaint(run_paceline({"chat"}, "/foo\ndef g():\n"), 2, {"/foo"});
  check_complaint(run_paceline({"chat", "-c", "16"}, std::string(300, 'x') + "\n"), 2,
                  {"context", "/reset"});
}

TEST_CASE("a message that the end of input cuts off is answered as it is") {
  const auto answered = [](const std::string& input) {
    return run_paceline({"chat", "-n", "4", "--temperature", "0", "-q"}, input).output;
  };
  const std::string whole = answered("def g():\n");
  CHECK_FALSE(whole.empty());
  CHECK(answered("def g():\\\n") == whole);
  CHECK(answered("\"\"\"\ndef g():\n") == whole);
}

TEST_CASE("a chat answers a question once, or what was said last once more") {
  const auto once = run_paceline({"chat", "demo", "def g():", "-n", "4", "--temperature", "0"});
  CHECK(once.status == 0);
  CHECK(once.errors.find("[length] 4 tokens") != std::string::npos);
  const auto twice = run_paceline({"chat", "-n", "4", "--temperature", "0", "-q"},
                                  "def g():\n/retry\n/set temperature 0\n/bye\nnot said\n");
  CHECK(twice.output == once.output + once.output);
  const auto edited = run_paceline({"chat", "-n", "4", "--temperature", "0", "-q"},
                                   "class A:\n/edit def g():\n/retry\n");
  CHECK(edited.output.ends_with(once.output + once.output));
  for (const char* line : {"/retry\n", "/regenerate\n", "/edit x\n"})
    check_complaint(run_paceline({"chat"}, line), 2, {"nothing has been answered"});
  check_complaint(run_paceline({"chat"}, "/edit\n"), 2, {"/edit TEXT"});
  CHECK(run_paceline({"chat", "-m", "demo", "def g():", "-n", "4", "--temperature", "0", "-q"})
            .output == once.output);
  check_complaint(run_paceline({"chat", "demo", "x", "-m", "demo"}), 2, {"--model"});
}

TEST_CASE("a chat names what drafts, and says where it has no template") {
  const auto demo = run_paceline({"chat", "-d", "suffix"}, "/model\n");
  CHECK(demo.errors.find("Draft: suffix (looked up in the text)") != std::string::npos);
  CHECK(demo.errors.find("template") == std::string::npos);
  CHECK(run_paceline({"chat", "-d", "none"}, "/model\n").errors.find("No draft") !=
        std::string::npos);
  const ModelCopy plain("target");
  plain.overwrite("tokenizer_config.json", "{}");
  CHECK(run_paceline({"chat", plain.path(), "x", "-n", "2"}).errors.find("no chat template") !=
        std::string::npos);
}

TEST_CASE("a chat that begins without speculation can turn it on, where there is a draft") {
  const auto result = run_paceline({"chat", "-n", "8", "--speculation", "off"},
                                   "def f(x):\n/speculation sync\ndef g(x):\n");
  CHECK(result.status == 0);
  CHECK(result.errors.find("acceptance") > result.errors.find("speculation sync"));
  check_complaint(run_paceline({"chat", "-d", ""}, "/speculation overlap\n"), 2, {"no draft"});
}

TEST_CASE("Ctrl-C ends a chat that reads from a pipe") {
  Process process(paceline_command({"chat", "-m", "scripted", "-d", ""}));
  const std::string line = "1 2 3\n";
  process.write(line);
  process.read_output(1);
  process.send(SIGINT);
  CHECK(process.wait().status == 130);
}

TEST_CASE("a race without a terminal prints a line for each way, and the winner") {
  const auto result = run_paceline({"race", "-n", "16", "--temperature", "0"});
  CHECK(result.status == 0);
  CHECK(plain(result));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 5);
  CHECK(result.output.starts_with("plain "));
  CHECK(result.output.find("\nOne machine: they ran one after another.\n") != std::string::npos);
  CHECK(result.output.find(" wins: ") != std::string::npos);
  const auto object =
      paceline_json({"race", "-n", "16", "--device", "sim:2ms", "--draft-device", "sim:200us"});
  check_keys(object, {"simulated", "modes.off", "modes.sync", "modes.overlap", "verdict", "seed"});
  CHECK(object.at("simulated").as_bool());
  const auto in_stages = run_paceline({"race", "-n", "4", "--device", "sim:2ms", "--device",
                                       "sim:2ms", "--draft-device", "sim:1ms"});
  CHECK(in_stages.output.find(" The target has 2 stages: sim:2ms, sim:2ms.") != std::string::npos);
}

TEST_CASE("a race on simulated devices takes the same time whenever it is run") {
  const std::vector<std::string> race{"race",
                                      "-n",
                                      "32",
                                      "--columns",
                                      "bf16,mxfp6,mxfp6+draft",
                                      "--device",
                                      "sim:7b@a100",
                                      "--draft-device",
                                      "sim:350m@a100"};
  const auto first = paceline_json(race);
  CHECK(first == paceline_json(race));
  const auto seconds = [&](const char* column) {
    return first.at("columns").at(column).at("seconds").to_number<double>();
  };
  // 32 tokens, whose weights are read in 8.3 ms with 16 bits and in 6.25 / 16 of that with mxfp6.
  CHECK(seconds("bf16") == doctest::Approx(32 * 0.0086).epsilon(0.05));
  CHECK(seconds("bf16") / seconds("mxfp6") == doctest::Approx(2.5).epsilon(0.05));
}

TEST_CASE("a race of weights and drafts names its columns in JSON, and says who wins") {
  const auto object = paceline_json({"race", "--columns", "bf16,mxfp6,mxfp6+draft", "-n", "16",
                                     "--device", "sim:7b@a100", "--draft-device", "sim:350m@a100"});
  CHECK_FALSE(object.contains("modes"));
  const auto& columns = object.at("columns").as_object();
  REQUIRE(columns.size() == 3);
  CHECK(columns.at("bf16").at("tokens") == 16);
  CHECK(columns.at("mxfp6").at("speculation").at("judged") == 0);
  CHECK(columns.at("mxfp6+draft").at("speculation").at("judged").to_number<int>() > 0);
  check_keys(object, {"verdict", "seed"});
  const auto here = run_paceline({"race", "--columns", "bf16,mxfp6+suffix", "-n", "8"});
  CHECK(here.status == 0);
  CHECK(here.output.find("mxfp6+suffix ") != std::string::npos);
  CHECK(here.output.find(" wins: ") != std::string::npos);
  check_complaint(run_paceline({"race", "--columns", "fp6"}), 2, {"fp6", "bf16,mxfp6"});
}

TEST_CASE("no way of a race finds the text that another one wrote") {
  const std::vector<std::string> prompt{"def read(path):", "-n", "48", "-d", "suffix"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), prompt.begin(), prompt.end());
    return paceline_json(arguments);
  };
  const auto alone = with({"generate", "--speculation", "sync", "--seed", "2"});
  const auto race = with({"race"});
  const auto per_round = [](const boost::json::value& speculation) {
    return speculation.at("tokens_per_round").to_number<double>();
  };
  const double expected = per_round(alone.at("speculation"));
  for (const char* mode : {"sync", "overlap"})
    CHECK(per_round(race.at("modes").at(mode).at("speculation")) < 1.6 * expected);
  CHECK(race.at("lookups").at("suffix") == "its own text");
}

TEST_CASE("a race that would be none is refused") {
  check_complaint(run_paceline({"race", "--verify", "match"}), 2, {"match"});
  check_complaint(run_paceline({"race", "--speculation", "sync"}), 2, {"--speculation"});
  check_complaint(run_paceline({"race", "-d", ""}), 2, {"draft"});
}

TEST_CASE("completions name every command and option that help knows") {
  const auto help = run_paceline({"chat", "--help"}).output;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = run_paceline({"completion", shell});
    CHECK(script.status == 0);
    for (const std::string option : {"speculation", "no-history", "num-speculative-tokens"}) {
      CAPTURE(option);
      CHECK(help.find("--" + option) != std::string::npos);
      CHECK(script.output.find(option) != std::string::npos);
    }
    for (const char* command : {"generate", "chat", "race", "bench", "completion", "overlap"})
      CHECK(script.output.find(command) != std::string::npos);
  }
  check_complaint(run_paceline({"completion", "tcsh"}), 2, {"bash|zsh|fish"});
}

TEST_CASE("the names that completions ask for are those of this machine") {
  const TemporaryFolder cache;
  const std::string hub = cache.path() + "/models--org--a-model--b";
  std::filesystem::create_directories(hub + "/snapshots/abc");
  std::filesystem::create_directories(hub + "/refs");
  std::filesystem::create_directories(cache.path() + "/models--org--not-whole");
  std::ofstream(hub + "/refs/main") << "abc";
  const auto names =
      run_process(paceline_command({"completion", "models"}), "",
                  {"HF_HUB_CACHE=" + cache.path(), "HOME=" + cache.path(), "PACELINE_MODELS="});
  CHECK(names.output == "demo\nscripted\norg/a-model--b\n");
  const auto devices = run_paceline({"completion", "devices"});
  CHECK(devices.output.starts_with("cpu\n"));
  CHECK(devices.output.find("\nsim:chinchilla-70b\n") != std::string::npos);
}

TEST_CASE("bash completes commands, options, their values and files") {
  const TemporaryFolder folder;
  const std::string script =
      folder.write("completion", run_paceline({"completion", "bash"}).output);
  const auto complete = [&](const std::string& words) {
    const std::string command =
        "source " + script + "; COMP_WORDS=(" + words +
        "); COMP_WORDS[0]=" PACELINE_PROGRAM
        "; COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _paceline; echo \"${COMPREPLY[*]}\"";
    return run_process({"/bin/bash", "-c", command}).output;
  };
  CHECK(complete("paceline comp") == "completion\n");
  CHECK(complete("paceline completion ''") == "bash zsh fish models drafts devices\n");
  CHECK(complete("paceline help comp") == "completion\n");
  CHECK(complete("paceline chat -m dem") == "demo\n");
  CHECK(complete("paceline chat --window a") == "auto\n");
  CHECK(complete("paceline chat --device cp") == "cpu\n");
  CHECK(complete("paceline chat --device sim : chinchilla-7").find("chinchilla-70b") == 0);
  CHECK(complete("paceline chat --device sim :").find("chinchilla-70b") != std::string::npos);
  CHECK(complete("paceline chat --spec") == "--speculation\n");
  CHECK(complete("paceline chat --speculation o") == "off overlap\n");
  CHECK(complete("paceline score " + script.substr(0, script.size() - 2)) == script + "\n");
}
