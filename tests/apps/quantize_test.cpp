// paceline quantize, from the command line to the folder that other commands load.
#include "tests/apps/support.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace paceline::testing;
namespace json = boost::json;

namespace {

std::vector<std::string> quantize_to(const std::string& folder,
                                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"quantize", "-o", folder, "--weights", "mxfp4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

} // namespace

TEST_CASE("a quantized folder answers as --weights does, and inspect knows what is in it") {
  const TemporaryFolder folder;
  const std::string to = folder.file("model");
  const auto report = paceline_json(quantize_to(to, {"--head-weights", "mxfp8"}));
  check_keys(report, {"folder", "weights", "weight_scales", "bytes_before", "bytes_after"});
  CHECK(report.at("weights") == "mxfp4");
  CHECK(report.at("layers").as_array().size() == 8);
  for (const json::value& kind : report.at("layers").as_array()) {
    const bool head = kind.at("name") == "lm_head";
    CHECK(kind.at("format") == (head ? "mxfp8" : "mxfp4"));
    CHECK(kind.at("bits").to_number<double>() == doctest::Approx(head ? 8.25 : 4.25));
    CHECK(kind.at("largest_error").to_number<double>() > 0);
  }
  const std::vector<std::string> request{"generate", "def f(",        "-n", "12", "-d",
                                         "none",     "--temperature", "0"};
  const auto with = [&](const std::vector<std::string>& more) {
    auto arguments = request;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return paceline_json(arguments);
  };
  const auto stored = with({"-m", to});
  const auto made = with({"--weights", "mxfp4", "--head-weights", "mxfp8"});
  CHECK(stored.at("tokens") == made.at("tokens"));
  const auto target = paceline_json({"inspect", "-m", to}).at("target").as_object();
  CHECK(target.at("dtypes") == json::array{"bf16", "mxfp4", "mxfp8"});
  const auto plain = paceline_json({"inspect"}).at("target").as_object();
  const auto head = target.at("vocabulary").to_number<std::int64_t>() *
                    target.at("hidden").to_number<std::int64_t>();
  CHECK(target.at("parameters").to_number<std::int64_t>() ==
        plain.at("parameters").to_number<std::int64_t>() + head);
}

TEST_CASE("quantize prints a table, and complains in a line") {
  const TemporaryFolder folder;
  const auto shown = run_paceline(quantize_to(folder.file("model")));
  CHECK(shown.status == 0);
  CHECK(shown.errors.empty());
  CHECK(shown.output.find("down_proj   mxfp4") != std::string::npos);
  CHECK(shown.output.find("largest error") != std::string::npos);
  check_complaint(run_paceline(quantize_to(folder.file("model"))), 2, {"exists"});
  check_complaint(run_paceline(quantize_to(folder.file("new"), {"-m", folder.file("model")})), 2,
                  {"quantized already"});
  check_complaint(run_paceline(quantize_to(folder.file("new"), {"-m", folder.file("none")})), 2,
                  {"no model "});
  check_complaint(run_paceline(quantize_to(folder.file("new"), {"-m", "scripted"})), 2,
                  {"no weights"});
  check_complaint(run_paceline({"quantize", "--weights", "mxfp4"}), 2, {"--output"});
  check_complaint(run_paceline({"quantize", "-o", folder.file("new")}), 2, {"--weights"});
  CHECK(folder.entries() == 1);
  CHECK(run_paceline(
            {"generate", "x", "-m", folder.file("model"), "--weights", "mxfp6", "-d", "none"})
            .errors.find("leave --weights") != std::string::npos);
}

TEST_CASE("a GGUF file that quantize writes answers, and becomes another one") {
  const TemporaryFolder folder;
  const std::string file = folder.file("model.gguf");
  const auto report = paceline_json({"quantize", "-o", file, "--weights", "q8_0"});
  check_keys(report, {"file", "weights", "weight_scales", "bytes_before", "bytes_after"});
  CHECK(report.at("weights") == "q8_0");
  CHECK(report.at("layers").as_array().size() == 8); // seven of a block, and the embedding
  const TemporaryFolder texts;
  const std::string text = texts.write("text", "def f(x):\n    return x\n");
  const auto perplexity = [&](const std::string& model) {
    return paceline_json({"score", text, "-m", model}).at("perplexity").to_number<double>();
  };
  CHECK(perplexity(file) == doctest::Approx(perplexity("demo")).epsilon(0.02));
  const std::string smaller = folder.file("smaller.gguf");
  CHECK(run_paceline({"quantize", "-m", file, "-o", smaller, "--weights", "q4_k"}).status == 0);
  const auto target = paceline_json({"inspect", "-m", smaller}).at("target").as_object();
  CHECK(target.at("dtypes") == json::array{"f32", "q4_k", "q5_0", "q8_0"});
  check_complaint(run_paceline({"quantize", "-o", file, "--weights", "q8_0"}), 2, {"exists"});
  check_complaint(run_paceline({"quantize", "-o", folder.file("x"), "--weights", "q8_0"}), 2,
                  {"q8_0 is not written to folders", ".gguf"});
  check_complaint(run_paceline({"quantize", "-o", folder.file("x.gguf"), "--weights", "mxfp6"}), 2,
                  {"mxfp6 is not written to GGUF files", "q4_k"});
  check_complaint(run_paceline({"quantize", "-o", folder.file("x.gguf"), "--weights", "q3_k"}), 2,
                  {"--weights"});
  CHECK(folder.entries() == 2);
}

TEST_CASE("a full disk leaves nothing behind") {
  const TemporaryFolder folder;
  std::string command = "trap '' XFSZ; ulimit -f 100; exec";
  for (const std::string& argument : paceline_command(quantize_to(folder.file("model"))))
    command += " '" + argument + "'";
  Process process({"/bin/sh", "-c", command});
  process.close_input();
  check_complaint(process.wait(), 1, {"cannot write", "free space"});
  CHECK(folder.entries() == 0);
}

TEST_CASE("Ctrl-C leaves nothing behind") {
  const ModelCopy model("draft");
  const TemporaryFolder folder;
  // A quarter of a billion zeros, of which the disk holds none.
  const std::string header =
      R"({"model.layers.0.mlp.up_proj.weight":{"dtype":"BF16","shape":[16384,16384],)"
      R"("data_offsets":[0,536870912]}})";
  model.overwrite("model.safetensors",
                  std::string(1, char(header.size())) + std::string(7, '\0') + header);
  std::filesystem::resize_file(model.file("model.safetensors"), 8 + header.size() + 536870912);
  Process process(paceline_command(quantize_to(folder.file("out"), {"-m", model.path()})));
  process.close_input();
  process.await_blocked(SIGINT);
  process.await_busy(0.2);
  process.send(SIGINT);
  const auto result = process.wait();
  CHECK(result.status == 130);
  CHECK(result.output.empty());
  CHECK(result.errors.find("interrupted: nothing was written") != std::string::npos);
  CHECK(folder.entries() == 0);
}

TEST_CASE("a line says that activations which a checkpoint quantizes are not quantized here") {
  const TemporaryFolder folder;
  const std::string to = folder.file("model");
  REQUIRE(run_paceline(quantize_to(to, {"-m", ModelCopy("draft").path()})).status == 0);
  const std::vector<std::string> request{"generate", "x", "-n", "1", "-m", to, "-d", "none"};
  CHECK(run_paceline(request).errors.find("Quark") == std::string::npos);
  std::ifstream in(to + "/config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  const std::string none = R"("input_tensors":null)";
  config.replace(config.find(none), none.size(), R"("input_tensors":{"dtype":"fp4"})");
  std::ofstream(to + "/config.json") << config;
  const auto result = run_paceline(request);
  CHECK(result.status == 0);
  CHECK(result.errors.find("Quark quantizes what its layers read, too") != std::string::npos);
}
