// Logits of whole models on an emulated GPU against the CPU's.
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/models/support.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <utility>

using namespace paceline;
using namespace paceline::models;

namespace {

std::vector<std::vector<float>> logits_on(const std::string& device, NumberFormat dtype) {
  LoadOptions options;
  options.dtype = dtype;
  const auto model = load_model(test::demo("draft"), test::device(device), options);
  REQUIRE_MESSAGE(model, model.error().text());
  std::vector<TokenId> tokens(70); // More than a chunk of attention, and than a block's rows.
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = TokenId(i * 37 % 250 + 10);
  return test::logits_of(*model, tokens);
}

/// RMS of the difference over RMS of the reference; the worst row's.
double worst_error(const std::vector<std::vector<float>>& rows,
                   const std::vector<std::vector<float>>& reference) {
  REQUIRE(rows.size() == reference.size());
  double worst = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double difference = 0;
    for (std::size_t i = 0; i < rows[r].size(); ++i)
      difference += std::pow(double(rows[r][i]) - double(reference[r][i]), 2);
    const double size =
        std::inner_product(reference[r].begin(), reference[r].end(), reference[r].begin(), 0.0);
    const double error = std::sqrt(difference / size);
    worst = error <= worst ? worst : error; // NaN counts as worst.
  }
  return worst;
}

} // namespace

TEST_CASE("a model's logits on a GPU are the CPU's, within rounding") {
  const gpu::testing::Gpus gpus(1);
  const double exact =
      worst_error(logits_on("cuda:0", NumberFormat::f32), logits_on("cpu", NumberFormat::f32));
  const double rounded =
      worst_error(logits_on("cuda:0", NumberFormat::bf16), logits_on("cpu", NumberFormat::bf16));
  MESSAGE("worst relative errors: f32 ", exact, ", bf16 ", rounded);
  CHECK(exact <= 1e-4);
  CHECK(rounded <= 2e-2);
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
    const auto model = load_model(folder.path(), test::device("cuda:0"), {});
    REQUIRE(!model); // 24: for the weights' shapes.
    CHECK((model.error().code == ErrorCode::unsupported) == !taken);
    CHECK((model.error().text().find("EngineOptions::device = cpu") != std::string::npos) ==
          !taken);
  }
}
