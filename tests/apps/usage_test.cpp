#include "tests/apps/support.hpp"

#include <doctest/doctest.h>
#include <regex>

using namespace paceline::testing;

TEST_CASE("help lists every command and shows examples, and each command explains itself") {
  const auto help = run_paceline({"--help"});
  CHECK(help.status == 0);
  CHECK(help.errors.empty());
  for (const char* command : {"generate", "demo", "bench", "score", "tokenize", "inspect",
                              "quantize", "theory", "conformance", "pull", "list", "rm"}) {
    CAPTURE(command);
    CHECK(help.output.find(std::string("  ") + command) != std::string::npos);
    const auto own = run_paceline({command, "--help"});
    CHECK(own.status == 0);
    CHECK(own.output.find("--help") != std::string::npos);
    CHECK(run_paceline({"help", command}).output == own.output);
  }
  CHECK(help.output.find("Examples:") != std::string::npos);
  CHECK(run_paceline({"help"}).output == help.output);
  const auto within = run_paceline({"bench", "serve", "--help"});
  CHECK(run_paceline({"help", "bench", "serve"}).output == within.output);
  CHECK(within.output.find("--request-rate") != std::string::npos);
}

TEST_CASE("the version is one line, with the commit if the sources were a repository") {
  const auto version = run_paceline({"--version"});
  CHECK(version.status == 0);
  const std::regex line(R"(paceline \d+\.\d+\.\d+( \([0-9a-f]{12,}(-dirty)?\))?\n)");
  CHECK_MESSAGE(std::regex_match(version.output, line), version.output);
}

TEST_CASE("bad usage is one line that says how to mend it, with status 2") {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases{
      {{}, {"--help"}},
      {{"genrate"}, {"genrate", "--help"}},
      {{"help", "genrate"}, {"genrate", "--help"}},
      {{"help", "bench", "sreve"}, {"bench sreve", "paceline bench --help"}},
      {{"--nonsense"}, {"--nonsense", "--help"}},
      {{"generate", "--nonsense", "x"}, {"--nonsense", "paceline generate --help"}},
      {{"generate", "a", "b"}, {"b", "paceline generate --help"}},
      {{"generate", "x", "-f", "y"}, {"--file"}},
      {{"generate", "x", "-n"}, {"--max-tokens"}},
      {{"generate", "x", "-n", "many"}, {"--max-tokens", "many"}},
      {{"generate", "x", "-n", "-1"}, {"--max-tokens", "-1"}},
      {{"generate", "x", "--n-predict", "1.5"}, {"1.5"}},
      {{"generate", "x", "--temperature", "hot"}, {"--temperature", "hot"}},
      {{"generate", "x", "--temp", "-1"}, {"-1"}},
      {{"generate", "x", "--temp", "nan"}, {"--temperature", "nan"}},
      {{"generate", "x", "--top-p", "0"}, {"--top-p"}},
      {{"generate", "x", "--top-p", "1.5"}, {"--top-p"}},
      {{"generate", "x", "--top-k", "-3"}, {"--top-k"}},
      {{"generate", "x", "--min-p", "2"}, {"--min-p"}},
      {{"generate", "x", "--repetition-penalty", "0"}, {"--repetition-penalty"}},
      {{"generate", "x", "--presence-penalty", "3"}, {"--presence-penalty"}},
      {{"generate", "x", "--frequency-penalty", "-3"}, {"--frequency-penalty"}},
      {{"generate", "x", "--seed", "-1"}, {"--seed"}},
      {{"generate", "x", "--seed", "99999999999999999999"}, {"--seed"}},
      {{"generate", "x", "--speculation", "maybe"}, {"off|sync|overlap|auto"}},
      {{"generate", "x", "--window", "0"}, {"--window", "32"}},
      {{"generate", "x", "--num-speculative-tokens", "33"}, {"--window"}},
      {{"generate", "x", "--window", "K"}, {"auto"}},
      {{"generate", "x", "--lookahead", "tree"}, {"--lookahead"}},
      {{"generate", "x", "--verify", "hope"}, {"rejection|coupled|match"}},
      {{"generate", "x", "--dtype", "int3"}, {"auto|f32|f16|bf16"}},
      {{"generate", "x", "--kv-memory", "lots"}, {"--kv-memory", "lots"}},
      {{"generate", "x", "--kv-memory", "5X"}, {"5X"}},
      {{"generate", "x", "--kv-memory", "99999999999T"}, {"99999999999T"}},
      {{"generate", "x", "--threads", "1000"}, {"--threads"}},
      {{"generate", "x", "--max-num-seqs", "0"}, {"--max-num-seqs"}},
      {{"generate", "x", "--ctx-size", "-5"}, {"--max-model-len"}},
      {{"generate", "x", "--trace", "/nowhere/at/all.json"}, {"--trace"}},
      {{"generate", "x", "--logprobs", "3"}, {"--json"}},
      {{"generate", "x", "--json", "--logprobs", "21"}, {"--logprobs"}},
      {{"generate", "x", "--prefill", "slow"}, {"invariant|fast"}},
      {{"generate", "x", "--prefill", "fast"}, {"cpu", "--prefill", "cuda"}},
      {{"generate", "x", "--prefill", "fast", "--prefill-chunk", "63"}, {"63", "64"}},
      {{"generate", "x", "--prefill-chunk", "0"}, {"--prefill-chunk"}},
      {{"generate", "x", "--stop", ""}, {"stop"}},
      {{"generate", "x", "-d", "", "--speculation", "sync"}, {"--speculation", "--draft-model"}},
      {{"generate", "x", "-m", "scripted", "-d", "none", "--speculation", "overlap"},
       {"--draft-model", "self:mxfp4"}},
      {{"race", "-d", "none"}, {"--draft-model", "self:mxfp4"}},
      {{"generate", "x", "-d", "self:q4"}, {"--draft-model", "mxfp6"}},
      {{"bench", "-d", "self:mxfp4", "--draft-scale", "9m"}, {"--draft-scale"}},
      {{"score"}, {"file"}},
      {{"bench", "--repetitions", "0"}, {"--repetitions"}},
      {{"demo", "-n", "1"}, {"--max-tokens"}},
  };
  for (const Case& one : cases) {
    std::string line;
    for (const auto& word : one.arguments)
      line += word + " ";
    CAPTURE(line);
    check_complaint(run_paceline(one.arguments), 2, one.words);
  }
}

TEST_CASE("errors of usage are in the program's own words") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"generate", "x", "--top-k"},
       "--top-k lacks a value: give N, or see paceline generate --help"},
      {{"generate", "x", "--logprobs", "3"},
       "--logprobs goes with --json only: give both, or see paceline generate --help"},
      {{"generate", "x", "-f", "y"},
       "--prompt stands beside --file: give one of them, or see paceline generate --help"},
      {{"score"}, "file is missing: see paceline score --help"},
  };
  for (const auto& [arguments, said] : cases)
    CHECK(run_paceline(arguments).errors == "paceline: " + said + "\n");
}

TEST_CASE("of an option that is given again the last value counts") {
  const auto object = paceline_json(
      {"generate", "x", "-n", "9", "--seed", "1", "-n", "2", "--temp", "2", "--temp", "0"});
  CHECK(object.at("usage").at("completion_tokens") == 2);
  CHECK(paceline_json({"generate", "x", "-n", "2", "--temp", "0"}).at("text") == object.at("text"));
}

TEST_CASE("~ in names of files, folders and models is the home folder, as in a shell") {
  const TemporaryFolder home;
  home.write("prompt", "def");
  home.write("options.toml", "nonsense = 1\n");
  const auto run = [&](const std::vector<std::string>& arguments) {
    return run_process(paceline_command(arguments), "", {"HOME=" + home.path()});
  };
  CHECK(run({"generate", "--file=~/prompt", "-n", "2"}).status == 0);
  CHECK(run({"serve", "--config=~/options.toml"}).errors.find("nonsense is no option") !=
        std::string::npos);
  CHECK(run({"generate", "x", "--model=~/no"}).errors.find(home.path() + "/no") !=
        std::string::npos);
}
