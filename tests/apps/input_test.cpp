// Models, devices and texts that are missing, damaged or contradictory.
#include "tests/apps/support.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <iterator>

#include <fstream>

using namespace paceline::testing;
namespace fs = std::filesystem;

namespace {

ProcessResult generate_with(std::vector<std::string> options) {
  options.insert(options.begin(), {"generate", "def f(x):", "-n", "4"});
  return run_paceline(std::move(options));
}

} // namespace

TEST_CASE("devices that do not exist are named") {
  for (const char* device : {"tpu", "cpu:99999", "cpu:a", "cuda:99", "sim:", "sim:x"}) {
    CAPTURE(device);
    check_complaint(generate_with({"--device", device}), 2, {device});
    check_complaint(generate_with({"--draft-device", device}), 2, {device});
    check_complaint(generate_with({"--reserve-device", device}), 2, {device});
  }
}

TEST_CASE("a reserve where the target is already is none") {
  check_complaint(generate_with({"--device", "cpu:0", "--reserve-device", "cpu:0"}), 2,
                  {"--reserve-device", "cpu:0"});
}

TEST_CASE("a core that does not exist is named, and those that do") {
  check_complaint(generate_with({"--device", "cpu:4000"}), 2, {"4000", "0"});
}

TEST_CASE("models that are not there are named") {
  const TemporaryFolder empty;
  const std::string file = empty.write("model.bin", "x");
  check_complaint(generate_with({"-m", "/no/such/model"}), 2, {"/no/such/model"});
  check_complaint(generate_with({"-d", "/no/such/model"}), 2, {"/no/such/model"});
  check_complaint(generate_with({"-m", "nobody/nothing"}), 2, {"nobody/nothing"});
  check_complaint(generate_with({"-m", empty.path()}), 2, {empty.path()});
  check_complaint(generate_with({"-m", file}), 2, {file});
  for (const char* command : {"tokenize", "score", "inspect"}) {
    CAPTURE(command);
    check_complaint(run_paceline({command, "-m", "/no/such/model", "/dev/null"}), 2);
  }
}

TEST_CASE("damaged weights are refused, not read") {
  const ModelCopy model("target");
  const auto size = fs::file_size(model.file("model.safetensors"));
  SUBCASE("cut in the middle") {
    fs::resize_file(model.file("model.safetensors"), size / 2);
  }
  SUBCASE("cut in the header") {
    fs::resize_file(model.file("model.safetensors"), 100);
  }
  SUBCASE("empty") {
    fs::resize_file(model.file("model.safetensors"), 0);
  }
  SUBCASE("longer than it says") {
    fs::resize_file(model.file("model.safetensors"), size + 10);
  }
  SUBCASE("another format") {
    model.overwrite("model.safetensors", std::string(4096, '{'));
  }
  check_complaint(generate_with({"-m", model.path()}), 2, {"model.safetensors"});
  check_complaint(run_paceline({"inspect", model.path()}), 2, {"model.safetensors"});
}

TEST_CASE("configurations that contradict the weights or themselves are refused") {
  const std::vector<std::pair<std::string, std::string>> changes{
      {"hidden_size", "385"},       {"hidden_size", "-1"},
      {"hidden_size", "\"wide\""},  {"num_hidden_layers", "7"},
      {"num_hidden_layers", "5"},   {"num_attention_heads", "5"},
      {"num_key_value_heads", "4"}, {"vocab_size", "5000"},
      {"vocab_size", "1e99"},       {"max_position_embeddings", "0"},
      {"rms_norm_eps", "\"\""},     {"architectures", "[\"FortuneTellerForCausalLM\"]"}};
  for (const auto& change : changes) {
    CAPTURE(change.first);
    CAPTURE(change.second);
    const ModelCopy model("target");
    model.set_config(change.first, change.second);
    check_complaint(generate_with({"-m", model.path()}), 2);
  }
}

TEST_CASE("JSON files that are not JSON are refused") {
  for (const char* name : {"config.json", "tokenizer.json", "generation_config.json"})
    for (const char* text : {"", "{", "[]", "\xff\xfe", "{\"model\": 7}x"}) {
      CAPTURE(name);
      CAPTURE(text);
      const ModelCopy model("target");
      model.overwrite(name, text);
      check_complaint(generate_with({"-m", model.path()}), 2, {name});
    }
}

TEST_CASE("what a generation_config.json asks for and is not obeyed is said") {
  const ModelCopy model("target");
  model.overwrite("generation_config.json", R"({"num_beams": 4, "suppress_tokens": [7]})");
  const auto said = paceline_json({"inspect", "-m", model.path()}).at("target").as_object();
  CHECK(said.at("not_obeyed") == boost::json::array{"suppress_tokens", "num_beams"});
  const auto run = run_paceline({"generate", "-m", model.path(), "-n", "2", "def f("});
  CHECK(run.status == 0);
  CHECK(run.errors.find("not obeyed: suppress_tokens, num_beams") != std::string::npos);
}

TEST_CASE("a draft for another vocabulary is mapped, and refused where it has too little of it") {
  const ModelCopy draft("draft");
  std::ifstream file(draft.file("tokenizer.json"));
  auto tokenizer = boost::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  auto& vocabulary = tokenizer.at("model").at("vocab").as_object();
  std::swap(vocabulary.at("a"), vocabulary.at("b"));
  draft.overwrite("tokenizer.json", boost::json::serialize(tokenizer));
  const auto mapped = paceline_json({"inspect", "-d", draft.path()}).at("pair").as_object();
  CHECK(mapped.at("compatible") == true);
  CHECK(mapped.at("vocabulary") == "mapped");
  CHECK(mapped.at("shared_tokens") == 1.0);
  CHECK(generate_with({"-d", draft.path()}).status == 0);

  boost::json::object others; // each token but one in five has another text
  for (const auto& [piece, id] : vocabulary)
    others[std::string(id.as_int64() % 5 == 0 ? "" : "~~~~") + std::string(piece)] = id;
  vocabulary = others;
  tokenizer.at("model").at("merges") = boost::json::array();
  draft.overwrite("tokenizer.json", boost::json::serialize(tokenizer));
  check_complaint(generate_with({"-d", draft.path()}), 2, {"% of the target's tokens"});
  const auto refused = paceline_json({"inspect", "-d", draft.path()}).at("pair").as_object();
  CHECK(refused.at("compatible") == false);
  CHECK(refused.contains("reason"));
}

TEST_CASE("too little memory for the cache says how much is needed") {
  const auto result = generate_with({"--kv-memory", "4K"});
  check_complaint(result, result.status == 2 ? 2 : 1, {"--kv-memory"});
}

TEST_CASE("texts that are missing, too long or no texts at all") {
  const TemporaryFolder folder;
  check_complaint(run_paceline({"generate", "-f", "/no/such/file"}), 2, {"/no/such/file"});
  check_complaint(run_paceline({"score", folder.path()}), 2, {folder.path()});
  check_complaint(run_paceline({"generate", "-f", "/dev/zero"}), 2, {"/dev/zero"});
  check_complaint(run_paceline({"score", folder.write("empty.py", "")}), 2, {"empty.py"});
  const std::string words = "value = value + 1\n";
  std::string long_text;
  while (long_text.size() < 10'000'000)
    long_text += words;
  check_complaint(run_paceline({"generate"}, long_text), 2, {"context"});
}
