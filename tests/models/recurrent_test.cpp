// Recurrent models: their configurations, and rows that are taken back. Their logits are compared
// in reference_test.cpp.
#include "models/checkpoint/folder.hpp"
#include "models/quantize.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

constexpr const char* recurrent_models[] = {"Qwen 3.5", "Qwen 3.5 that ends with a recurrent layer",
                                            "Qwen 3.5 MoE"};

std::string refusal(json::object config) {
  const test::TemporaryFolder folder;
  folder.write("config.json", json::serialize(config));
  const auto read = FolderSource(folder.path()).config();
  REQUIRE_FALSE(read);
  return read.error().text();
}

} // namespace

TEST_CASE("windows of a recurrent model that are taken back leave the bits of plain decoding") {
  const std::vector<TokenId> tokens = test::some_tokens(40, 160);
  const std::vector<TokenId> wrong(40, 7);
  for (const char* name : recurrent_models) {
    CAPTURE(std::string(name));
    const auto model = test::load_reference(test::reference_case(name), gpu::DType::bf16).value();
    const test::Rows expected = test::logits_of(model, tokens);
    test::Runner runner(model, 4);
    const auto pages = runner.take_pages(int(tokens.size()) + 8);
    const auto other = runner.take_pages(int(tokens.size()) + 8);
    for (int at = 0, window = 0; at < int(tokens.size()); window = (window + 3) % 8) {
      // The token at `at` is certain, a part of those behind it is right, and the others are not.
      const int right = std::min(window / 2, int(tokens.size()) - at - 1);
      std::vector<TokenId> fed(tokens.begin() + at, tokens.begin() + at + 1 + right);
      fed.insert(fed.end(), wrong.begin(), wrong.begin() + window - right);
      SequenceRows rows{pages, at, fed, 0};
      rows.tentative = window;
      const SequenceRows company{other, 0, wrong, 40};
      const test::Rows given = runner.run(std::vector{company, rows});
      for (int i = 0; i <= right; ++i)
        CHECK(test::same_bits({given[std::size_t(i)]}, {expected[std::size_t(at + i)]}));
      at += 1 + right;
    }
  }
}

TEST_CASE("recurrent layers that contradict themselves, or are not known, are refused") {
  const json::object config = test::reference_case("Qwen 3.5").at("config").as_object();
  const std::pair<const char*, json::value> cases[] = {
      {"linear_num_value_heads", 3},
      {"linear_num_key_heads", 0},
      {"linear_key_head_dim", 1 << 20},
      {"linear_conv_kernel_dim", 9},
      {"layer_types", json::array{"full_attention"}}};
  for (const auto& [key, value] : cases) {
    json::object changed = config;
    changed[key] = value;
    CHECK_MESSAGE(refusal(changed).find(key) != std::string::npos, refusal(changed));
  }
  json::object other = config;
  other["layer_types"] =
      json::array{"linear_attention", "sliding_attention", "full_attention", "full_attention"};
  CHECK(refusal(other).find("sliding_attention") != std::string::npos);
}

TEST_CASE("a recurrent model's folder is quantized, its rates and convolutions apart") {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, test::reference_case("Qwen 3.5"), gpu::DType::bf16);
  QuantizeOptions options;
  options.blocks = {WeightFormat::mxfp8, ScaleChoice::search};
  const auto written = quantize_checkpoint(folder.path(), folder.file("out"), options);
  REQUIRE_MESSAGE(written, written.error().text());
  LoadOptions load;
  load.blocks = options.blocks;
  const auto loaded = test::load(folder.path(), test::device(), load);
  REQUIRE_MESSAGE(loaded, loaded.error().text());
  CHECK(test::same_bits(test::logits_at(folder.file("out")),
                        test::logits_of(*loaded, test::some_tokens(40, 160))));
}
