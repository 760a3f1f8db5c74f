#include "tests/apps/support.hpp"

#include <doctest/doctest.h>

using namespace paceline::testing;

TEST_CASE("help lists every command and shows examples, and each command explains itself") {
  const auto help = run_paceline({"--help"});
  CHECK(help.status == 0);
  CHECK(help.errors.empty());
  for (const char* command :
       {"generate", "demo", "bench", "score", "tokenize", "inspect", "quantize"}) {
    CAPTURE(command);
    CHECK(help.output.find(std::string("  ") + command) != std::string::npos);
    const auto own = run_paceline({command, "--help"});
    CHECK(own.status == 0);
    CHECK(own.output.find("--help") != std::string::npos);
    CHECK(run_paceline({"help", command}).output == own.output);
  }
  CHECK(help.output.find("Examples:") != std::string::npos);
  CHECK(run_paceline({"help"}).output == help.output);
}

TEST_CASE("the version is one line") {
  const auto version = run_paceline({"--version"});
  CHECK(version.status == 0);
  CHECK(version.output.starts_with("paceline "));
  CHECK(version.output.ends_with('\n'));
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
