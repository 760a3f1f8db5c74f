// Logits of whole models on an emulated GPU against the CPU's.
#include "models/quantize.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/support.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace paceline;
using namespace paceline::models;
using test::worst_error;

namespace {

std::vector<std::vector<float>> logits_on(const std::string& device, const LoadOptions& options,
                                          const std::string& folder = test::demo("draft")) {
  const auto model = test::load(folder, test::device(device), options);
  REQUIRE_MESSAGE(model, model.error().text());
  std::vector<TokenId> tokens(70); // More than a chunk of attention, and than a block's rows.
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = TokenId(i * 37 % 250 + 10);
  return test::logits_of(*model, tokens);
}

} // namespace

TEST_CASE("a model's logits on a GPU are the CPU's, within rounding") {
  const gpu::testing::Gpus gpus(1);
  const auto error = [](const LoadOptions& options) {
    return worst_error(logits_on("cuda:0", options), logits_on("cpu", options));
  };
  LoadOptions options;
  options.dtype = NumberFormat::f32;
  const double exact = error(options);
  options.dtype = NumberFormat::bf16;
  const double rounded = error(options);
  options.blocks = {WeightFormat::mxfp6};
  const double quantized = error(options);
  MESSAGE("worst relative errors: f32 ", exact, ", bf16 ", rounded, ", mxfp6 ", quantized);
  CHECK(exact <= 1e-4);
  CHECK(rounded <= 2e-2);
  CHECK(quantized <= 2e-2);
}

namespace {

/// Compares a case's logits on a GPU with the CPU's. apart: rows that may be further off where rows
/// are rounded.
void check_family(const char* name, int apart) {
  CAPTURE(std::string(name));
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, test::reference_case(name), gpu::DType::bf16);
  const auto tokens = test::some_tokens(40, 160);
  const auto logits = [&](const std::string& device, const LoadOptions& options, int count = 40) {
    const auto model = test::load(folder.path(), test::device(device), options);
    REQUIRE_MESSAGE(model, model.error().text());
    return test::logits_of(*model, std::span(tokens).first(std::size_t(count)));
  };
  LoadOptions options;
  options.dtype = NumberFormat::f32;
  CHECK(worst_error(logits("cuda:0", options), logits("cpu", options)) <= 1e-4);
  options.dtype = NumberFormat::bf16;
  auto all = logits("cuda:0", options);
  const auto on_cpu = logits("cpu", options);
  int far = 0;
  for (std::size_t r = 0; r < all.size(); ++r)
    far += worst_error({all[r]}, {on_cpu[r]}) > 2e-2;
  CHECK(far <= apart);
  all.resize(3);
  CHECK(test::same_bits(logits("cuda:0", options, 3), all));
}

} // namespace

TEST_CASE("a mixture's logits on a GPU are the CPU's, and a row's the same in any company") {
  const gpu::testing::Gpus gpus(1);
  // Where two experts are nearly equal, rounding may choose the other.
  for (const char* name : {"Qwen 3 MoE", "Qwen 2 MoE", "GLM-4.5 Air, with groups", "gpt-oss"})
    check_family(name, 1);
}

TEST_CASE("logits of GPTs on a GPU are the CPU's, and a row's the same in any company") {
  const gpu::testing::Gpus gpus(1);
  for (const char* name : {"GPT-2", "Pythia", "GPT-NeoX in turn", "OPT", "GPT-J", "CodeGen"})
    check_family(name, 0);
}

TEST_CASE("a quantized folder on a GPU is, bit for bit, the model quantized while it is loaded") {
  const gpu::testing::Gpus gpus(1);
  const test::TemporaryFolder folder;
  QuantizeOptions how;
  how.blocks = {WeightFormat::mxfp4};
  how.head = {WeightFormat::mxfp8_e5m2};
  const auto report = quantize_checkpoint(test::demo("draft"), folder.file("out"), how);
  REQUIRE_MESSAGE(report, report.error().text());
  LoadOptions options;
  options.blocks = how.blocks;
  options.head = how.head;
  CHECK(logits_on("cuda:0", {}, folder.file("out")) == logits_on("cuda:0", options));
}

TEST_CASE("a model of heads that no kernel takes is refused before its weights are read") {
  const gpu::testing::Gpus gpus(1);
  const test::TemporaryFolder folder;
  test::link_all(test::demo("draft"), folder);
  const std::string config = test::read_file(test::demo("draft") + "/config.json");
  for (const auto& [given, taken] : {std::pair("20", false), {"264", false}, {"24", true}}) {
    const char* size = given;
    CAPTURE(size);
    std::string changed = config;
    const std::string field = "\"head_dim\": 32";
    changed.replace(changed.find(field), field.size(), std::string("\"head_dim\": ") + size);
    folder.write("config.json", changed);
    const auto model = test::load(folder.path(), test::device("cuda:0"), {});
    REQUIRE(!model); // 24: for the weights' shapes.
    CHECK((model.error().code == ErrorCode::unsupported) == !taken);
    CHECK((model.error().text().find("EngineOptions::devices = cpu") != std::string::npos) ==
          !taken);
  }
}

TEST_CASE("rows of 8 bits are refused where products round to bf16") {
  const gpu::testing::Gpus gpus(1);
  LoadOptions options;
  options.blocks = {WeightFormat::mxfp4};
  options.activations = Activations::int8;
  const auto model = test::load(test::demo("draft"), test::device("cuda:0"), options);
  REQUIRE(!model);
  CHECK(model.error().code == ErrorCode::unsupported);
  CHECK(model.error().text().find("EngineOptions::activations") != std::string::npos);
}
