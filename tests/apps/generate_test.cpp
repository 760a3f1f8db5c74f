#include "tests/apps/support.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <iterator>

#include <filesystem>
#include <fstream>

using namespace paceline::testing;
namespace json = boost::json;

namespace {

const std::string prompt = "def fibonacci(n):\n";

std::vector<std::string> with(std::vector<std::string> first,
                              const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

json::object generate(const std::vector<std::string>& options) {
  return paceline_json(with({"generate", prompt, "-n", "24"}, options));
}

} // namespace

TEST_CASE("generate --json prints one object with the documented keys") {
  const auto object = generate({"--seed", "7"});
  check_keys(object, {"text",
                      "tokens",
                      "finish_reason",
                      "seed",
                      "usage.prompt_tokens",
                      "usage.completion_tokens",
                      "usage.total_tokens",
                      "speculation.mode",
                      "speculation.verify",
                      "speculation.drafted",
                      "speculation.judged",
                      "speculation.accepted",
                      "speculation.discarded",
                      "speculation.acceptance_rate",
                      "speculation.rounds",
                      "speculation.tokens_per_round",
                      "speculation.lookahead_hit_rate",
                      "speculation.overlap_ratio",
                      "timing.load_seconds",
                      "timing.time_to_first_token_seconds",
                      "timing.decode_seconds",
                      "timing.tokens_per_second"});
  CHECK(object.at("seed") == 7);
  CHECK(object.at("speculation").at("verify") == "coupled");
  const auto& usage = object.at("usage").as_object();
  CHECK(json::value(object.at("tokens").as_array().size()).to_number<int>() ==
        usage.at("completion_tokens").to_number<int>());
  CHECK(usage.at("total_tokens").to_number<int>() ==
        usage.at("prompt_tokens").to_number<int>() +
            usage.at("completion_tokens").to_number<int>());
}

TEST_CASE("every mode writes the same text, greedy or coupled") {
  for (const std::vector<std::string>& sampling :
       {std::vector<std::string>{"--temperature", "0"},
        std::vector<std::string>{"--temperature", "0.9", "--top-p", "0.9", "--seed", "3",
                                 "--repetition-penalty", "1.1"}}) {
    const auto plain = generate(with(sampling, {"--speculation", "off"}));
    CHECK(plain.at("speculation").at("drafted") == 0);
    for (const char* mode : {"sync", "overlap", "auto"}) {
      CAPTURE(mode);
      const auto other = generate(with(sampling, {"--speculation", mode, "--window", "3"}));
      CHECK(other.at("tokens") == plain.at("tokens"));
      CHECK(other.at("text") == plain.at("text"));
    }
  }
}

TEST_CASE("options reach the engine") {
  const auto fixed =
      generate({"--speculation", "overlap", "--window", "5"}).at("speculation").as_object();
  CHECK(fixed.at("mode") == "overlap");
  CHECK(fixed.at("window") == 5);
  const auto alone = generate({"--draft-model", ""}).at("speculation");
  CHECK(alone.at("mode") == "off");
  CHECK(alone.at("drafted") == 0);
  const auto drafter = [](const boost::json::object& speculation) {
    return speculation.at("drafters").at(0).at("draft");
  };
  const ModelCopy copy("target"); // the demo draft is the default for the demo target only
  CHECK(drafter(fixed) == "model");
  CHECK(drafter(generate({"--model", copy.path()}).at("speculation").as_object()) == "suffix");
  CHECK(fixed.at("lookahead_rounds").to_number<int>() > 0);
  const auto unchained =
      generate({"--speculation", "overlap", "--lookahead", "none", "--window", "3"});
  CHECK(unchained.at("speculation").at("lookahead_rounds").to_number<int>() == 0);
  const auto matched = generate({"--speculation", "sync", "--verify", "match"});
  CHECK(matched.at("speculation").at("mode") == "sync");
  CHECK(matched.at("speculation").at("verify") == "match");
  const auto short_context = generate({"--ctx-size", "16", "--ignore-eos"});
  CHECK(short_context.at("usage").at("total_tokens") == 16);
  CHECK(short_context.at("finish_reason") == "length");
}

TEST_CASE("what is greedy says that it can be repeated, without a seed") {
  CHECK(generate({"--temperature", "0"}).at("reproducible") == true);
}

TEST_CASE("the seed and the rule that were reported repeat a run that says it can be repeated") {
  const std::vector<std::pair<std::vector<std::string>, bool>> cases{
      {{}, false}, // speculates by rejection, as time has it
      {{"--top-k", "1", "--verify", "coupled"}, true},
      {{"--verify", "coupled", "--speculation", "overlap"}, true},
      {{"--speculation", "off"}, true},
      {{"-d", ""}, true},
      {{"--speculation", "sync", "--window", "4"}, true},
      {{"--speculation", "sync"}, false},
      {{"--speculation", "overlap", "--window", "4", "--verify", "rejection"}, false},
      {{"--verify", "match"}, false},
      {{"--verify", "rejection", "--seed", "7"}, false}};
  for (const auto& [options, repeats] : cases) {
    std::string line;
    for (const std::string& option : options)
      line += option + " ";
    CAPTURE(line);
    const auto all = with({"--temperature", "1"}, options);
    const auto first = generate(all);
    CHECK(first.at("reproducible") == repeats);
    const auto seed = first.at("seed").to_number<std::uint64_t>();
    CHECK(seed < (1ULL << 53)); // so that every reader of JSON can give it back
    if (!repeats)
      continue;
    const std::string rule(first.at("speculation").at("verify").as_string());
    std::vector<std::string> with_seed{"--seed", std::to_string(seed)};
    if (line.find("--verify") == std::string::npos)
      with_seed.insert(with_seed.end(), {"--verify", rule});
    const auto again = generate(with(all, with_seed));
    CHECK(again.at("tokens") == first.at("tokens"));
  }
}

TEST_CASE("text goes to standard output, statistics to standard error") {
  const std::vector<std::string> line{"generate", prompt, "-n", "24", "--temperature", "0"};
  const auto text = std::string(generate({"--temperature", "0"}).at("text").as_string());
  const auto shown = run_paceline(line);
  CHECK(shown.status == 0);
  CHECK(shown.output == text + "\n");
  CHECK(shown.errors.find("tokens/s") != std::string::npos);
  const auto quiet = run_paceline(with(line, {"--quiet"}));
  CHECK(quiet.output == text + "\n");
  CHECK(quiet.errors.empty());
  CHECK(run_paceline(with(line, {"--quiet", "--echo"})).output == prompt + text + "\n");
}

TEST_CASE("the prompt may be an argument, an option, a file or standard input") {
  const TemporaryFolder folder;
  const std::vector<std::string> options{"-n", "8", "--temperature", "0"};
  const auto expected = paceline_json(with({"generate", prompt}, options)).at("tokens");
  const auto file = folder.write("prompt.py", prompt);
  CHECK(paceline_json(with({"generate", "-p", prompt}, options)).at("tokens") == expected);
  CHECK(paceline_json(with({"generate", "-f", file}, options)).at("tokens") == expected);
  CHECK(paceline_json(with({"generate"}, options), prompt).at("tokens") == expected);
  CHECK(paceline_json(with({"generate", "-"}, options), prompt).at("tokens") == expected);
}

TEST_CASE("an empty prompt starts a new text, and invalid UTF-8 is replaced") {
  const auto empty = paceline_json({"generate", "", "-n", "4"});
  CHECK(empty.at("usage").at("prompt_tokens") == 1);
  const auto invalid = paceline_json({"generate", "-n", "4"}, "x = '\xff\xc3'\n");
  const auto replaced = paceline_json({"generate", "-n", "4"}, "x = '\xef\xbf\xbd\xef\xbf\xbd'\n");
  CHECK(invalid.at("usage").at("prompt_tokens") == replaced.at("usage").at("prompt_tokens"));
}

TEST_CASE("where nothing was drafted no window was cut, and one token has no speed") {
  const auto object = paceline_json(
      {"generate", "-d", "suffix", "-n", "2", "--device", "sim:10ms", "--seed", "1", "def"});
  const auto& speculation = object.at("speculation").as_object();
  CHECK(speculation.at("drafted") == 0);
  CHECK(speculation.at("windows_cut") == false);
  const auto shown = run_paceline({"generate", "-n", "1", "def"});
  CHECK(shown.errors.find("] 1 token, first after ") != std::string::npos);
}

TEST_CASE("finish reasons: length, and a stop string that is not printed") {
  const auto whole = generate({"--temperature", "0", "--ignore-eos"});
  CHECK(whole.at("finish_reason") == "length");
  CHECK(whole.at("tokens").as_array().size() == 24);
  const std::string text(whole.at("text").as_string());
  const std::string stop = text.substr(text.size() / 2, 4);
  const auto cut = generate({"--temperature", "0", "--ignore-eos", "--stop", stop});
  CHECK(cut.at("finish_reason") == "stop");
  CHECK(std::string(cut.at("text").as_string()) == text.substr(0, text.find(stop)));
}

TEST_CASE("log-probabilities come with alternatives, the likeliest first") {
  const auto object = generate({"--temperature", "0", "--logprobs", "3"});
  const auto& logprobs = object.at("logprobs").as_array();
  REQUIRE(logprobs.size() == object.at("tokens").as_array().size());
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    check_keys(logprobs[i].as_object(), {"token", "piece", "bytes", "logprob", "top"});
    const auto& top = logprobs[i].at("top").as_array();
    REQUIRE(top.size() == 3);
    CHECK(logprobs[i].at("token") == object.at("tokens").as_array()[i]);
    CHECK(top[0].at("token") == logprobs[i].at("token")); // greedy takes the likeliest
    CHECK(top[0].at("logprob").to_number<double>() >= top[1].at("logprob").to_number<double>());
  }
}

TEST_CASE("a trace is written as JSON, and nothing is left beside it") {
  const TemporaryFolder folder;
  const auto path = folder.file("trace.json");
  generate({"--trace", path});
  std::ifstream file(path);
  const auto trace = json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  CHECK(trace.as_object().at("traceEvents").as_array().size() > 0);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a trace that cannot be written is an error, after the text") {
  const auto result = run_paceline(
      {"generate", prompt, "-n", "4", "--temperature", "0", "-q", "--trace", "/dev/full"});
  CHECK(result.status == 1);
  CHECK(!result.output.empty());
  CHECK(result.errors.starts_with("paceline: cannot write /dev/full (No space left on device): "));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a reader that goes away is no error") {
  Process process(paceline_command({"generate", "-m", "scripted", "-d", "", "-n", "200000", "1"}));
  process.close_input();
  process.read_output(1);
  process.close_output();
  const auto result = process.wait();
  CHECK(result.signal == 0);
  CHECK(result.status == 0);
}

TEST_CASE("a full disk is an error") {
  const auto result = run_process(
      {"/bin/sh", "-c", std::string(PACELINE_PROGRAM) + " tokenize 'def f(x):' > /dev/full"});
  check_complaint(result, 1, {"standard output"});
}
