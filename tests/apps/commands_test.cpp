#include "tests/apps/support.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <sstream>

#include <cmath>

using namespace paceline::testing;
namespace json = boost::json;

TEST_CASE("tokenize gives ids and pieces") {
  const auto object = paceline_json({"tokenize", "def f(x):"});
  check_keys(object, {"tokens", "pieces"});
  CHECK(object.at("tokens").as_array().size() == object.at("pieces").as_array().size());
  CHECK(object.at("pieces").as_array()[0] == "def");
  const auto shown = run_paceline({"tokenize", "def f(x):"});
  CHECK(shown.status == 0);
  CHECK(shown.output.find("  def\n") != std::string::npos);
  CHECK(paceline_json({"tokenize"}, "def f(x):").at("tokens") == object.at("tokens"));
  CHECK(paceline_json({"tokenize", ""}).at("tokens").as_array().empty());
}

TEST_CASE("tokenize encodes and decodes line by line") {
  const auto result = run_paceline({"tokenize", "--jsonl"}, "\"def f(x):\\n\"\n[348]\n\"\"");
  REQUIRE(result.status == 0);
  const auto whole = paceline_json({"tokenize"}, "def f(x):\n");
  const std::string first = json::serialize(whole) + "\n";
  CHECK(result.output.starts_with(first));
  CHECK(result.output.substr(first.size()) ==
        "{\"text\":\" def\"}\n{\"tokens\":[],\"pieces\":[]}\n");
}

TEST_CASE("a bad line of tokenize is one error, in its place") {
  for (const char* line :
       {"def", "{}", "[\"a\"]", "[1.5]", "[1e99]", "", "[348, -1]", "[999999]"}) {
    CAPTURE(line);
    const auto result =
        run_paceline({"tokenize", "--jsonl"}, std::string("\"a\"\n") + line + "\n[348]\n");
    CHECK(result.status == 2);
    CHECK(result.errors.find("line 2") != std::string::npos);
    std::istringstream lines(result.output);
    std::string each[3];
    for (std::string& one : each)
      std::getline(lines, one);
    CHECK(each[0].starts_with("{\"tokens\":["));
    CHECK(each[1].starts_with("{\"error\":\""));
    CHECK(each[2] == "{\"text\":\" def\"}");
  }
  CHECK(run_paceline({"tokenize", "--jsonl"}, "x\ny\n").errors.find("2 lines have errors") !=
        std::string::npos);
}

TEST_CASE("tokenize answers a line before the next one is there") {
  Process process(paceline_command({"tokenize", "--jsonl"}));
  process.write("[348]\n");
  process.read_output(1);
  process.write("[348]\n");
  process.close_input();
  CHECK(process.wait().output == "{\"text\":\" def\"}\n{\"text\":\" def\"}\n");
}

TEST_CASE("score gives each token's log-probability, and perplexity from their mean") {
  const TemporaryFolder folder;
  const auto file = folder.write("module.py", "import os\n\n\ndef main():\n    return 0\n");
  const auto object = paceline_json({"score", file});
  check_keys(object, {"tokens", "logprobs", "perplexity"});
  const auto& logprobs = object.at("logprobs").as_array();
  REQUIRE(logprobs.size() == object.at("tokens").as_array().size());
  CHECK(logprobs[0].is_null());
  double sum = 0;
  for (std::size_t i = 1; i < logprobs.size(); ++i) {
    CHECK(logprobs[i].to_number<double>() <= 0);
    sum += logprobs[i].to_number<double>();
  }
  CHECK(object.at("perplexity").to_number<double>() ==
        doctest::Approx(std::exp(-sum / double(logprobs.size() - 1))));
  CHECK(run_paceline({"score", file}).output.find("perplexity") != std::string::npos);
}

TEST_CASE("score gives a generated token the log-probability that generating it had") {
  const TemporaryFolder folder;
  const auto generated = paceline_json({"generate", "1 2 3", "-m", "scripted", "-d", "", "-n", "20",
                                        "--temperature", "1", "--logprobs", "0"});
  const auto& logprobs = generated.at("logprobs").as_array();
  const auto file = folder.write("ids", "1 2 3" + std::string(generated.at("text").as_string()));
  const auto scored = paceline_json({"score", "-m", "scripted", file});
  const auto& scores = scored.at("logprobs").as_array();
  REQUIRE(scores.size() == 3 + logprobs.size());
  for (std::size_t i = 0; i < logprobs.size(); ++i)
    CHECK(scores[3 + i].to_number<double>() ==
          doctest::Approx(logprobs[i].at("logprob").to_number<double>()).epsilon(1e-5));
}

TEST_CASE("a text longer than the context is scored in windows, each token once") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "x" + std::to_string(i) + " = " + std::to_string(i * i) + "\n";
  const auto file = folder.write("long.py", text);
  const auto whole = paceline_json({"score", file});
  const auto windowed = run_paceline({"score", file, "-c", "64", "--json"});
  CHECK(windowed.status == 0);
  CHECK(windowed.errors.find("windows") != std::string::npos);
  const auto object = json::parse(windowed.output).as_object();
  CHECK(object.at("tokens") == whole.at("tokens"));
  const auto& all = whole.at("logprobs").as_array();
  const auto& parts = object.at("logprobs").as_array();
  REQUIRE(parts.size() == all.size());
  double difference = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (i < 64)
      CHECK(parts[i] == all[i]); // the first window has the same before it, bit for bit
    difference += std::abs(parts[i].as_double() - all[i].as_double());
  }
  // Half a context is less to go by than all of it; one token's place too far would show.
  CHECK(difference / double(all.size()) < 0.5);
  CHECK(whole.at("tokens").as_array().size() > 64);
}

TEST_CASE("score refuses a context that gives nothing to go by") {
  const TemporaryFolder folder;
  const auto file = folder.write("module.py", "import os\n");
  check_complaint(run_paceline({"score", file, "-c", "1"}), 2, {"--max-model-len"});
}

TEST_CASE("score compares formats of weights, each with the perplexity that it has alone") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += "def f" + std::to_string(i) + "(x):\n    return x + " + std::to_string(i) + "\n\n";
  const auto file = folder.write("module.py", text);
  const std::vector<std::string> compare{"score",      file, "-c", "100", "--compare-weights",
                                         "mxfp8,mxfp4"};
  const auto shown = run_paceline(compare);
  CHECK(shown.status == 0);
  CHECK(shown.output.find("same top") != std::string::npos);
  auto as_json = compare;
  as_json.push_back("--json");
  const auto object = json::parse(run_paceline(as_json).output).as_object();
  check_keys(object, {"target.weights", "draft.name", "context", "scored_tokens", "formats"});
  CHECK(object.at("scored_tokens").to_number<int>() > 100); // in several windows
  const auto& formats = object.at("formats").as_array();
  REQUIRE(formats.size() == 1 + 2 * 3);
  const auto number = [&](std::size_t i, const char* key) {
    return formats[i].at(key).to_number<double>();
  };
  CHECK(formats[0].at("weights") == "bf16");
  CHECK(formats[0].at("scales").is_null());
  CHECK(number(0, "kl_divergence") == doctest::Approx(0).epsilon(1e-6));
  CHECK(number(0, "same_top") == 1);
  CHECK(formats[5].at("weights") == "mxfp4");
  CHECK(formats[5].at("scales") == "floor");
  CHECK(number(5, "kl_divergence") > number(2, "kl_divergence"));
  CHECK(number(5, "self_acceptance") < number(2, "self_acceptance"));
  CHECK(number(5, "weight_bytes") < number(2, "weight_bytes"));
  for (std::size_t i = 1; i < formats.size(); ++i)
    for (const char* share :
         {"same_top", "self_acceptance", "draft_acceptance", "same_format_draft_acceptance"}) {
      CHECK(number(i, share) > 0.3);
      CHECK(number(i, share) < 1);
    }
  const auto alone = run_paceline(
      {"score", file, "-c", "100", "--json", "--weights", "mxfp4", "--weight-scales", "floor"});
  CHECK(json::parse(alone.output).at("perplexity").to_number<double>() ==
        doctest::Approx(number(5, "perplexity")).epsilon(1e-5));
}

TEST_CASE("score compares a cache of int8 with the checkpoint's own, alone and under each format") {
  const TemporaryFolder folder;
  const auto file = folder.write("module.py", "import os\nimport sys\n\n\ndef main():\n    pass\n");
  const auto object = paceline_json(
      {"score", file, "--compare-weights", "mxfp8", "-d", "none", "--kv-cache-dtype", "int8"});
  const auto& formats = object.at("formats").as_array();
  REQUIRE(formats.size() == 2 + 3);
  CHECK_FALSE(formats[0].as_object().contains("kv_cache_dtype"));
  CHECK(formats[1].at("weights") == "bf16");
  for (std::size_t i = 1; i < formats.size(); ++i) {
    CHECK(formats[i].at("kv_cache_dtype") == "int8");
    CHECK(formats[i].at("kl_divergence").to_number<double>() > 0);
  }
  const auto alone = paceline_json({"score", file, "--kv-cache-dtype", "int8"});
  CHECK(alone.at("perplexity").to_number<double>() ==
        doctest::Approx(formats[1].at("perplexity").to_number<double>()).epsilon(1e-5));
}

TEST_CASE("score compares rows of int8 with rows of bf16 under each format that has integers") {
  const TemporaryFolder folder;
  const auto file = folder.write("module.py", "import os\nimport sys\n\n\ndef main():\n    pass\n");
  const auto object = paceline_json(
      {"score", file, "--compare-weights", "mxfp8,mxfp4", "-d", "none", "--activations", "int8"});
  const auto& formats = object.at("formats").as_array();
  REQUIRE(formats.size() == 1 + 3 + 3 * 2);
  const auto perplexity = [&](std::size_t i) {
    return formats[i].at("perplexity").to_number<double>();
  };
  for (std::size_t i = 0; i < formats.size(); ++i)
    CHECK(formats[i].as_object().contains("activations") == (i >= 4 && i % 2 == 1));
  for (std::size_t i = 4; i < formats.size(); i += 2) {
    CHECK(formats[i].at("scales") == formats[i + 1].at("scales"));
    CHECK(perplexity(i + 1) != perplexity(i));
    CHECK(perplexity(i + 1) == doctest::Approx(perplexity(i)).epsilon(0.02));
  }
  const auto alone = paceline_json({"score", file, "--weights", "mxfp4", "--activations", "int8"});
  CHECK(alone.at("perplexity").to_number<double>() == doctest::Approx(perplexity(5)).epsilon(1e-5));
}

TEST_CASE("inspect counts keys and values as the cache would keep them") {
  const auto bytes = [](const std::vector<std::string>& options, const char* role) {
    std::vector<std::string> all{"inspect"};
    all.insert(all.end(), options.begin(), options.end());
    return paceline_json(all).at(role).at("kv_bytes_per_token").to_number<int>();
  };
  CHECK(bytes({}, "target") == 6 * 2 * 2 * 128);
  CHECK(bytes({"--kv-cache-dtype", "int8"}, "target") == 6 * 2 * 2 * (64 + 4));
  CHECK(bytes({"--kv-cache-dtype", "int8"}, "draft") == bytes({}, "draft"));
  CHECK(bytes({"--draft-kv-cache-dtype", "int8"}, "draft") == 2 * 2 * 2 * (32 + 4));
}

TEST_CASE("score compares formats that there are, and says what it cannot compare") {
  const TemporaryFolder folder;
  const auto file = folder.write("module.py", "import os\nimport sys\n");
  check_complaint(run_paceline({"score", file, "--compare-weights", "mxfp8,q4"}), 2,
                  {"--compare-weights", "q4", "mxfp4"});
  check_complaint(run_paceline({"score", file, "--compare-weights", "mxfp8", "--weights", "mxfp4"}),
                  2, {"--weights"});
  check_complaint(run_paceline({"score", file, "-d", "demo"}), 2, {"--compare-weights"});
  check_complaint(
      run_paceline({"score", file, "--compare-weights", "mxfp8", "--device", "sim:1ms"}), 2,
      {"sim:1ms", "--device"});
  check_complaint(run_paceline({"score", file, "--compare-weights", "mxfp8", "-m", "scripted"}), 2,
                  {"no weights to quantize"});
  const auto none =
      run_paceline({"score", file, "--compare-weights", "mxfp8", "-d", "none", "--json"});
  CHECK(json::parse(none.output).at("formats").at(1).at("draft_acceptance").is_null());
}

TEST_CASE("inspect shows both models of the demo pair and that they fit") {
  const auto object = paceline_json({"inspect"});
  for (const std::string role : {"target", "draft"})
    check_keys(object, {role + ".architecture", role + ".parameters", role + ".weight_bytes",
                        role + ".max_model_len", role + ".vocabulary", role + ".special_tokens"});
  CHECK(object.at("pair").at("compatible") == true);
  CHECK(object.at("target").at("architecture") == "LlamaForCausalLM");
  CHECK(object.at("target").at("parameters").to_number<std::int64_t>() > 10'000'000);
  const auto shown = run_paceline({"inspect"});
  CHECK(shown.output.find("LlamaForCausalLM") != std::string::npos);
  CHECK(shown.output.find("<|endoftext|>") != std::string::npos);
}

TEST_CASE("inspect --weights shows what a model would take with its blocks quantized") {
  const auto plain = paceline_json({"inspect"}).at("target").as_object();
  CHECK(!plain.contains("quantized"));
  const auto object = paceline_json({"inspect", "--weights", "mxfp6"}).at("target").as_object();
  CHECK(object.at("quantized").at("weights") == "mxfp6");
  const auto& bytes = object.at("weight_bytes");
  const double blocks =
      bytes.at("attention").to_number<double>() + bytes.at("feed-forward").to_number<double>();
  double all = 0;
  for (const auto& part : bytes.as_object())
    all += part.value().to_number<double>();
  CHECK(object.at("quantized").at("weight_bytes").to_number<double>() ==
        doctest::Approx(all - blocks * (1 - 6.25 / 16)).epsilon(1e-4));
  CHECK(run_paceline({"inspect", "--weights", "mxfp6"}).output.find("as mxfp6") !=
        std::string::npos);
  check_complaint(run_paceline({"inspect", "--weights", "q4"}), 2, {"--weights", "mxfp4"});
}

TEST_CASE("inspect shows what each device would have of a target in stages and shards") {
  const std::vector<std::string> where{
      "inspect",  "--device",       "sim:5ms",  "--device", "sim:5ms",
      "--device", "sim:5ms",        "--device", "sim:5ms",  "--tensor-parallel-size",
      "2",        "--stage-layers", "2,4"};
  const auto target = paceline_json(where).at("target").as_object();
  const auto& division = target.at("division").as_object();
  const auto& devices = division.at("devices").as_array();
  REQUIRE(devices.size() == 4);
  std::int64_t token = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& device = devices[i].as_object();
    CHECK(device.at("stage").to_number<std::size_t>() == i / 2 + 1);
    CHECK(device.at("shard").to_number<std::size_t>() == i % 2 + 1);
    CHECK(device.at("first_layer") == (i < 2 ? 0 : 2));
    CHECK(device.at("layers") == (i < 2 ? 2 : 4));
    CHECK(device.at("weight_bytes").to_number<std::int64_t>() > 1'000'000);
    token += device.at("kv_bytes_per_token").to_number<std::int64_t>();
    CHECK(device.at("kv_bytes").to_number<std::int64_t>() ==
          device.at("kv_bytes_per_token").to_number<std::int64_t>() *
              division.at("kv_tokens").to_number<std::int64_t>());
  }
  CHECK(token == target.at("kv_bytes_per_token").to_number<std::int64_t>());
  const auto shown = run_paceline(where).output;
  CHECK(shown.find("target over its devices") != std::string::npos);
  CHECK(shown.find("2-5") != std::string::npos);
  CHECK(!paceline_json({"inspect"}).at("target").as_object().contains("division"));
  check_complaint(run_paceline({"inspect", "--device", "cpu:0", "--device", "cpu:0"}), 2,
                  {"--device", "not two devices"});
  check_complaint(run_paceline({"inspect", "--device", "sim:5ms", "--device", "sim:5ms",
                                "--stage-layers", "1,2"}),
                  2, {"--stage-layers", "6 layers"});
  check_complaint(run_paceline({"inspect", "--device", "sim:5ms", "--tensor-parallel-size", "2"}),
                  2, {"--tensor-parallel-size"});
}

TEST_CASE("inspect shows a draft out of the model itself, and the memory that it adds") {
  const auto alone = paceline_json({"inspect"}).at("target").as_object();
  const auto object = paceline_json({"inspect", "-d", "self:mxfp4"});
  const auto& draft = object.at("draft").as_object();
  CHECK(draft.at("name") == "self:mxfp4");
  CHECK(draft.at("parameters") == alone.at("parameters"));
  CHECK(draft.at("quantized").at("weights") == "mxfp4");
  const auto number = [](const json::value& value) { return value.to_number<double>(); };
  const double own =
      number(draft.at("quantized").at("weight_bytes")) - number(draft.at("shared_bytes"));
  double whole = 0;
  for (const auto& [part, bytes] : alone.at("weight_bytes").as_object())
    whole += number(bytes);
  CHECK((whole - number(draft.at("shared_bytes"))) / own == doctest::Approx(3.76).epsilon(0.01));
  CHECK(object.at("pair").at("compatible") == true);
  CHECK(number(object.at("pair").at("bytes")) ==
        whole + own +
            1024 *
                (number(alone.at("kv_bytes_per_token")) + number(draft.at("kv_bytes_per_token"))));
  check_complaint(run_paceline({"inspect", "-d", "self:q4"}), 2, {"--draft-model", "mxfp4"});
}

TEST_CASE(
    "inspect shows what a head on the model reads and says, and refuses one of another model") {
  const auto alone = paceline_json({"inspect"}).at("target").as_object();
  const auto object = paceline_json({"inspect", "-d", "eagle3:demo"});
  const auto& head = object.at("draft").as_object();
  CHECK(head.at("architecture") == "EAGLE-3 head");
  CHECK(head.at("head").at("layout") == "original");
  CHECK(head.at("head").at("target_layers") == json::array{1, 3, 5});
  CHECK(head.at("head").at("says") == 1024);
  CHECK(head.at("layers") == 1);
  const auto number = [](const json::value& value) { return value.to_number<int>(); };
  CHECK(number(object.at("target").at("kv_bytes_per_token")) ==
        number(alone.at("kv_bytes_per_token")) + 3 * 384 * 4);
  CHECK(object.at("pair").at("compatible") == true);
  CHECK(run_paceline({"inspect", "-d", "eagle3:demo"}).output.find("layers 1, 3, 5") !=
        std::string::npos);
  check_complaint(run_paceline({"inspect", "-m", ModelCopy("draft").path(), "-d", "eagle3:demo"}),
                  2, {"hidden_size 384", "has 128"});
}

TEST_CASE("inspect says which ids are never drawn: those that the tokenizer does not have") {
  const ModelCopy model("draft");
  model.set_config("vocab_size", "5000");
  const auto target = paceline_json({"inspect", model.path()}).at("target").as_object();
  CHECK(target.at("vocabulary") == 5000);
  CHECK(target.at("tokenizer_vocabulary") == 4096);
  const auto shown = run_paceline({"inspect", model.path()}).output;
  CHECK(shown.find("5000 ids, of which the tokenizer has 4096; no other") != std::string::npos);
  CHECK(run_paceline({"inspect"}).output.find("no other") == std::string::npos);
}

TEST_CASE("inspect knows every draft that other commands take") {
  for (const char* lookup : {"suffix", "ngram"}) {
    const auto object = paceline_json({"inspect", "-d", lookup});
    CHECK(object.at("draft").at("name") == lookup);
    CHECK(object.at("draft").at("lookup") == true);
    CHECK(object.at("pair").at("compatible") == true);
    CHECK(run_paceline({"inspect", "-d", lookup}).output.find("looked up in the text") !=
          std::string::npos);
  }
  CHECK_FALSE(paceline_json({"inspect", "-d", "none"}).contains("draft"));
  CHECK(paceline_json({"inspect", "-d", "auto"}).at("draft").at("name") == "demo");
}

TEST_CASE("inspect --families lists what is known, with the architecture's name in config.json") {
  const auto families = paceline_json({"inspect", "--families"}).at("families").as_array();
  CHECK(families.size() >= 9);
  const auto text = run_paceline({"inspect", "--families"}).output;
  for (const auto& family : families)
    for (const char* key : {"architecture", "models"})
      CHECK(text.find(family.at(key).as_string().c_str()) != std::string::npos);
  check_complaint(run_paceline({"inspect", "--families", "--devices"}), 2, {"--devices"});
}

TEST_CASE(
    "inspect --devices names cores, kernel, GPUs or why there is none, and simulated devices") {
  const auto object = paceline_json({"inspect", "--devices"});
  check_keys(object, {"name", "kernel", "kernels", "cores", "physical_cores", "memory_bytes",
                      "cuda.toolkit", "cuda.driver", "cuda.cublas", "cuda.nccl",
                      "cuda.architectures", "cuda.devices", "cuda.unusable"});
  const auto& cuda = object.at("cuda").as_object();
  CHECK(cuda.at("devices").as_array().empty() == cuda.at("unusable").is_string());
  CHECK(object.at("sim").as_array().size() > 3);
  const auto text = run_paceline({"inspect", "--devices"}).output;
  CHECK(text.starts_with("cpu"));
  CHECK(text.find("\ncuda\n") != std::string::npos);
  CHECK(text.find("sim:chinchilla-70b") != std::string::npos);
  if (cuda.at("unusable").is_string())
    CHECK(text.find(cuda.at("unusable").as_string().c_str()) != std::string::npos);
}

TEST_CASE("demo shows the same text in three modes, and a table that compares them") {
  const auto result = run_paceline({"demo", "-n", "24"});
  CHECK(result.status == 0);
  for (const char* part : {"plain", "synchronous", "overlapped", "simulated", "acceptance",
                           "tokens/s", "speed-up", "Overlap pays"}) {
    CAPTURE(part);
    CHECK(result.output.find(part) != std::string::npos);
  }
  const auto text_of = [&](const std::string& heading) {
    const auto begin = result.output.find("--- " + heading) + 4 + heading.size();
    return result.output.substr(begin, result.output.find("\n\n", begin) - begin);
  };
  CHECK(text_of("plain").size() > 40);
  CHECK(text_of("synchronous") == text_of("plain"));
  CHECK(text_of("overlapped") == text_of("plain"));
}

TEST_CASE(
    "a chat template that cannot be used ends the start, is shown by inspect, and can be given") {
  const ModelCopy model("target");
  model.overwrite("chat_template.jinja", "{{ messages[0].content }}\n{{ 1 | unheard_of }}");
  const std::vector<std::string> words{model.file("chat_template.jinja"), "line 2", "unheard_of",
                                       "--chat-template"};
  check_complaint(run_paceline({"chat", "-m", model.path(), "-d", "none"}), 2, words);
  check_complaint(run_paceline({"serve", "-m", model.path(), "-d", "none", "--port", "0",
                                "--log-level", "off"}),
                  2, words);
  const auto object = paceline_json({"inspect", model.path()}).at("target").as_object();
  CHECK(object.at("chat_template") == "broken");
  CHECK(object.at("chat_template_error").as_string().find("line 2") != std::string::npos);
  CHECK(run_paceline({"inspect", model.path()}).output.find("unheard_of") != std::string::npos);
  const TemporaryFolder folder;
  const auto mended = folder.write("t.jinja", "{{ messages[0].content }}");
  const auto chat = run_paceline(
      {"chat", "-m", model.path(), "-d", "none", "--chat-template", mended, "-n", "1"}, "x\n");
  CHECK(chat.status == 0);
}

TEST_CASE("inspect shows the experts of a mixture, and what a token passes through") {
  const TemporaryFolder folder;
  GgufWriter file;
  file.put("general.architecture", std::string("qwen3moe"));
  for (const auto& [key, value] : {std::pair("embedding_length", 32u),
                                   {"block_count", 1u},
                                   {"attention.head_count", 2u},
                                   {"feed_forward_length", 64u},
                                   {"expert_count", 4u},
                                   {"expert_used_count", 1u},
                                   {"expert_feed_forward_length", 8u},
                                   {"context_length", 64u}})
    file.put(std::string("qwen3moe.") + key, value);
  const auto zeros = [](std::size_t count) { return std::vector<float>(count, 0); };
  file.put("qwen3moe.attention.layer_norm_rms_epsilon", 1e-6f)
      .put("tokenizer.ggml.model", std::string("llama"))
      .put("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a"})
      .put("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1})
      .tensor("token_embd.weight", {4, 32}, zeros(4 * 32))
      .tensor("blk.0.ffn_gate_inp.weight", {4, 32}, zeros(4 * 32))
      .tensor("blk.0.ffn_gate_exps.weight", {4, 8, 32}, zeros(4 * 8 * 32))
      .tensor("blk.0.ffn_up_exps.weight", {4, 8, 32}, zeros(4 * 8 * 32));
  const std::string path = folder.write("tiny.gguf", file.bytes());
  const auto object = paceline_json({"inspect", "-m", path}).at("target").as_object();
  const json::value experts{
      {"layers", 1}, {"count", 4}, {"per_token", 1}, {"ffn", 8}, {"shared_ffn", 0}};
  CHECK(object.at("experts") == experts);
  CHECK(object.at("parameters") == 2 * 4 * 32 + 2 * 4 * 8 * 32);
  CHECK(object.at("active_parameters") == 2 * 4 * 32 + 2 * 4 * 8 * 32 - 3 * 3 * 8 * 32);
  const std::string missing = json::serialize(object.at("missing"));
  CHECK(missing.find("blk.0.ffn_down_exps.weight") != std::string::npos);
  CHECK(missing.find("gate") == std::string::npos);
  const auto shown = run_paceline({"inspect", "-m", path});
  CHECK(shown.output.find("4 experts of 8 in 1 layers") != std::string::npos);
}

TEST_CASE("inspect shows how a GGUF is stored, what it takes in memory and what it lacks") {
  const TemporaryFolder folder;
  GgufWriter file;
  file.put("general.architecture", std::string("qwen2")).put("general.name", std::string("Tiny"));
  for (const auto& [key, value] : {std::pair("embedding_length", 32u),
                                   {"block_count", 1u},
                                   {"attention.head_count", 2u},
                                   {"feed_forward_length", 32u},
                                   {"context_length", 64u}})
    file.put(std::string("qwen2.") + key, value);
  file.put("qwen2.attention.layer_norm_rms_epsilon", 1e-6f)
      .put("tokenizer.ggml.model", std::string("llama"))
      .put("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a"})
      .put("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1})
      .tensor("token_embd.weight", 8, {4, 32}, std::string(4 * 34, 0))
      .tensor("blk.0.ffn_down.weight", 2, {32, 32}, std::string(32 * 18, 0))
      .tensor("blk.0.attn_output.weight", 40, {32, 64}, std::string(32 * 36, 0))
      .tensor("output_norm.weight", {32}, std::vector<float>(32, 1));
  const std::string path = folder.write("tiny.gguf", file.bytes());
  const auto object = paceline_json({"inspect", "-m", path}).at("target").as_object();
  CHECK(object.at("description") == "GGUF of Tiny, architecture qwen2, tokenizer llama");
  CHECK(object.at("formats").at("feed-forward").at(0) == "q4_0");
  CHECK(object.at("formats").at("embedding").at(0) == "q8_0");
  CHECK(object.at("loaded_bytes") == 4 * 34 + 32 * 18 + 2 * 32 * 64 + 4 * 32);
  CHECK(object.at("missing").at(0) == "blk.0.attn_norm.weight");
  const std::string shown = run_paceline({"inspect", "-m", path}).output;
  for (const char* part :
       {"q4_0", "in memory", "nvfp4", "decoded to bf16", "missing", "and 3 more"})
    CHECK_MESSAGE(shown.find(part) != std::string::npos, shown);
  const auto tokens = paceline_json({"tokenize", "-m", path, "a"}).at("tokens").as_array();
  CHECK(tokens.size() == 3); // <s>, the blank before it, which no token is, and "a".
}
