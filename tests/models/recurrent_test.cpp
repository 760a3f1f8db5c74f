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

std::string refusal(json::object config) {
  const test::TemporaryFolder folder;
  folder.write("config.json", json::serialize(config));
  const auto read = FolderSource(folder.path()).config();
  REQUIRE_FALSE(read);
  return read.error().text();
}

ModelConfig config_of(const json::object& config) {
  const test::TemporaryFolder folder;
  folder.write("config.json", json::serialize(config));
  auto read = FolderSource(folder.path()).config();
  REQUIRE_MESSAGE(read, read.error().text());
  return *read;
}

} // namespace

TEST_CASE("windows of a recurrent model that are taken back leave the bits of plain decoding") {
  const std::vector<TokenId> tokens = test::some_tokens(40, 160);
  const std::vector<TokenId> wrong(40, 7);
  for (const char* name : test::recurrent_cases) {
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

TEST_CASE("a recurrent sequence that begins again begins with an empty state") {
  const std::vector<TokenId> tokens = test::some_tokens(12, 160);
  const std::vector<TokenId> before(40, 7);
  for (const char* name : test::recurrent_cases) {
    CAPTURE(std::string(name));
    const auto model = test::load_reference(test::reference_case(name), gpu::DType::bf16).value();
    test::Runner runner(model, 4);
    const auto pages = runner.take_pages(40);
    runner.run(std::vector{SequenceRows{pages, 0, before, 40}});
    const test::Rows again = runner.run(std::vector{SequenceRows{pages, 0, tokens, 0}});
    CHECK(test::same_bits(again, test::logits_of(model, tokens)));
  }
}

TEST_CASE("recurrent layers that contradict themselves, or are not known, are refused") {
  struct Wrong {
    const char* model;
    const char* key;
    json::value value;
    const char* said = ""; ///< Empty: the key.
  };
  const Wrong cases[] = {
      {"Qwen 3.5", "linear_num_value_heads", 3},
      {"Qwen 3.5", "linear_num_key_heads", 0},
      {"Qwen 3.5", "linear_key_head_dim", 1 << 20},
      {"Qwen 3.5", "linear_conv_kernel_dim", 9},
      {"Qwen 3.5", "layer_types", json::array{"full_attention"}},
      {"Qwen 3.5", "layer_types",
       json::array{"linear_attention", "sliding_attention", "full_attention", "full_attention"},
       "sliding_attention"},
      {"Granite 4", "mamba_d_state", 256},
      {"Granite 4", "mamba_d_state", nullptr},
      {"Granite 4", "mamba_d_head", 16},
      {"Granite 4", "mamba_d_head", "large"},
      {"Granite 4", "mamba_n_heads", 0},
      {"Granite 4", "mamba_n_groups", 3},
      {"Granite 4", "mamba_d_conv", 9},
      {"Granite 4", "mamba_expand", 1},
      {"Granite 4", "time_step_limit", json::array{1.0, 0.5}},
      {"Granite 4", "time_step_limit", 3},
      {"Granite 4", "position_embedding_type", "alibi"},
      {"Granite 4", "layer_types", json::array{"mamba", "mamba", "conv", "mamba"}, "conv"},
      {"LFM 2", "conv_L_cache", 9},
      {"LFM 2", "block_ffn_dim_multiplier", -1},
      {"LFM 2 with its options", "full_attn_idxs", 1},
      {"LFM 2 MoE", "num_experts_per_tok", 9},
      {"Nemotron-H", "hybrid_override_pattern", "M-*"},
      {"Nemotron-H", "hybrid_override_pattern", "M-*x"},
      {"Nemotron-H", "hybrid_override_pattern", nullptr},
      {"Nemotron-H", "mamba_head_dim", 256},
      {"Nemotron-H", "mamba_head_dim", nullptr},
      {"Nemotron-H", "n_groups", 3},
      {"Nemotron-H", "conv_kernel", 9},
      {"Nemotron-H", "mamba_hidden_act", "gelu"},
      {"Nemotron-H", "attention_bias", true},
      {"Nemotron-H with its options", "layers_block_type",
       json::array{"mlp", "conv", "full_attention", "linear_attention"}, "conv"},
      {"Nemotron-H MoE", "moe_latent_size", 16},
      {"Nemotron-H MoE", "n_shared_experts", 2},
      {"Nemotron-H MoE", "moe_intermediate_size", 24, "experts of 24 units"},
      {"Nemotron-H MoE", "num_experts_per_tok", 9},
  };
  for (const Wrong& wrong : cases) {
    json::object changed = test::reference_case(wrong.model).at("config").as_object();
    changed[wrong.key] = wrong.value;
    const std::string said = refusal(changed);
    CHECK_MESSAGE(said.find(*wrong.said ? wrong.said : wrong.key) != std::string::npos, said);
  }
}

TEST_CASE("Granite's recurrent layers and LFM 2's say the same in other words") {
  json::object granite = test::reference_case("Granite 4").at("config").as_object();
  const ModelConfig whole = config_of(granite);
  granite["mamba_d_head"] = "auto";
  granite["layer_types"] =
      json::array{"linear_attention", "linear_attention", "full_attention", "linear_attention"};
  granite["position_embedding_type"] = nullptr;
  granite["time_step_limit"] = json::array{0.0, json::object{{"__float__", "Infinity"}}};
  const ModelConfig same = config_of(granite);
  CHECK(same.recurrence->rule == whole.recurrence->rule);
  CHECK(same.mixers[2].mixer == Mixer::attention);
  CHECK(same.mixers[2].rope == -1);
  json::object lfm2 = test::reference_case("LFM 2").at("config").as_object();
  CHECK(config_of(lfm2).ffn == 64); // two thirds of 80, in steps of 16
  lfm2["block_ff_dim"] = 96;
  lfm2["block_ffn_dim_multiplier"] = 1.5;
  CHECK(config_of(lfm2).ffn == 96);
}

TEST_CASE("Nemotron-H's layers are each one part, whatever words their list has") {
  json::object config = test::reference_case("Nemotron-H").at("config").as_object();
  const ModelConfig letters = config_of(config);
  for (const int layer : {0, 1, 2, 3}) {
    CHECK(letters.is_recurrent(layer) == (layer == 0));
    CHECK(letters.attends(layer) == (layer == 2));
    CHECK(letters.feeds(layer) == (layer % 2 == 1));
    CHECK(letters.has_mixer(layer) == !letters.feeds(layer));
    CHECK((letters.mixer_outputs(layer) > 0) == letters.has_mixer(layer));
    CHECK((letters.ffn_in(layer) > 0) == letters.feeds(layer));
  }
  CHECK(letters.ropes.empty());
  CHECK(letters.last_for_all() == 2);
  CHECK(letters.stored_ffn() == letters.ffn / 2.0);
  config.erase("hybrid_override_pattern");
  config.erase("num_hidden_layers");
  config.erase("head_dim");
  config["attention_head_dim"] = letters.head_dim;
  config["time_step_limit"] = json::array{0.0, "unbounded"};
  std::string text;
  for (const json::array& layers : {json::array{"linear_attention", "mlp", "full_attention", "mlp"},
                                    json::array{"mamba", "mlp", "attention", "mlp"}}) {
    config["layers_block_type"] = layers;
    const test::TemporaryFolder folder;
    text = json::serialize(config); // Python writes a bound that is none like this.
    text.replace(text.find("\"unbounded\""), 11, "Infinity");
    folder.write("config.json", text);
    const auto words = FolderSource(folder.path()).config();
    REQUIRE_MESSAGE(words, words.error().text());
    CHECK(words->recurrence->rule == letters.recurrence->rule);
    CHECK(words->head_dim == letters.head_dim);
    for (int layer = 0; layer < 4; ++layer)
      CHECK(words->mixers[std::size_t(layer)].mixer == letters.mixers[std::size_t(layer)].mixer);
  }
}

TEST_CASE("a recurrent model's folder is quantized, its rates and convolutions apart") {
  for (const char* name :
       {"Qwen 3.5", "Granite 4 without experts, with its options", "LFM 2 MoE", "Nemotron-H MoE"}) {
    CAPTURE(std::string(name));
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, test::reference_case(name), gpu::DType::bf16);
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
}
