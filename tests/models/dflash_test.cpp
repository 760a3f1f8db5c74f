// DFlash drafters in both layouts against the reference (tools/reference/dflash.py), and what is
// said of those that fit no target or are none.
#include "models/dflash.hpp"
#include "models/head.hpp"
#include "models/transformer.hpp"
#include "tests/models/head_pair.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

const json::object& drafters_file() {
  static const json::value file = test::data("dflash.json");
  return file.as_object();
}

const json::object& drafter_case(std::string_view name) {
  for (const json::value& drafter : drafters_file().at("drafters").as_array())
    if (drafter.at("name").as_string() == name)
      return drafter.as_object();
  FAIL("no drafter " << name);
  throw std::logic_error("unreachable");
}

std::vector<TokenId> drafter_prompt() {
  return test::ids_of(drafters_file().at("prompt"));
}

std::shared_ptr<const Model> load_drafted_target() {
  auto loaded = test::load_reference(drafters_file().at("target").as_object(), gpu::DType::f32);
  REQUIRE_MESSAGE(loaded, loaded.error().text());
  return *loaded;
}

Result<Head> load_drafter_in(const test::TemporaryFolder& folder) {
  static const auto target = load_drafted_target();
  return open_dflash(folder.path(), *config_of(*target), "target").and_then([](HeadSource&& head) {
    return load_head(std::move(head), target, test::device(), {});
  });
}

Head load_drafter_case(std::string_view name) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, drafter_case(name), gpu::DType::f32);
  auto head = load_drafter_in(folder);
  REQUIRE_MESSAGE(head, head.error().text());
  return std::move(*head);
}

/// Feeds the drafter the tokens [start, end) of the prompt, whose last one begins a block of so
/// many rows; without masks it only reads. Returns the logits of the masks, from number `from` on.
test::Rows draft_block(test::HeadPair& pair, int start, int end, int masks, int from = 0) {
  const std::vector<TokenId> tokens = drafter_prompt();
  const auto fed = std::span(tokens).subspan(std::size_t(start), std::size_t(end - start));
  const SequenceRows rows{.pages = pair.pages,
                          .start = start,
                          .tokens = fed,
                          .logits_from = int(fed.size()) + from,
                          .features = {&pair.target.pool(), pair.target_pages, end - 1},
                          .masks = masks};
  return pair.drafter.run({&rows, 1});
}

void check_drafter_refused(const test::TemporaryFolder& folder,
                           const std::vector<std::string>& words) {
  const auto head = load_drafter_in(folder);
  REQUIRE_FALSE(head);
  for (const std::string& word : words)
    CHECK(paceline::testing::says(head.error(), word));
}

/// Checks that a drafter is refused with options of its config.json changed.
void check_drafter_config_refused(std::string_view name, const json::object& change,
                                  const std::vector<std::string>& words) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, drafter_case(name), gpu::DType::f32);
  json::object config = drafter_case(name).at("config").as_object();
  for (const auto& [key, value] : change)
    config[key] = value;
  folder.write("config.json", json::serialize(config));
  check_drafter_refused(folder, words);
}

/// Does the same with options in dflash_config.
void check_option_refused(const json::object& change, const std::vector<std::string>& words) {
  json::object options = drafter_case("original").at("config").at("dflash_config").as_object();
  for (const auto& [key, value] : change)
    options[key] = value;
  check_drafter_config_refused("original", {{"dflash_config", options}}, words);
}

/// Checks that a drafter is refused with its model.safetensors changed.
template <class Change>
void check_drafter_weights_refused(std::string_view name, Change change,
                                   const std::vector<std::string>& words) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, drafter_case(name), gpu::DType::f32);
  test::WeightsFile weights(folder.path());
  change(weights);
  folder.write("model.safetensors", weights.bytes());
  check_drafter_refused(folder, words);
}

constexpr const char* drafter_names[] = {"original", "with windows", "speculators"};

} // namespace

TEST_CASE("drafters of both layouts say of a block what the reference says") {
  for (const char* name : drafter_names) {
    CAPTURE(std::string(name));
    for (const json::value& block : drafter_case(name).at("blocks").as_array()) {
      const int first = int(block.at("first").as_int64());
      CAPTURE(first);
      const json::array& expected = block.at("logits").as_array();
      test::HeadPair pair(load_drafter_case(name));
      pair.read(drafter_prompt());
      const test::Rows logits = draft_block(pair, 0, first + 1, int(expected.size()));
      REQUIRE(logits.size() == expected.size());
      for (std::size_t i = 0; i < logits.size(); ++i)
        CHECK(test::error_of(logits[i], expected[i]) < 1e-4);
    }
  }
}

TEST_CASE(
    "a block has the same bits however its context was read, and whatever was drafted since") {
  for (const char* name : drafter_names) {
    CAPTURE(std::string(name));
    test::HeadPair whole(load_drafter_case(name));
    whole.read(drafter_prompt());
    const test::Rows expected = draft_block(whole, 0, 33, 3);
    for (const auto& [page_tokens, chunk] : {std::pair(16, 1), {8, 7}, {32, 5}}) {
      test::HeadPair pair(load_drafter_case(name), page_tokens);
      pair.read(drafter_prompt());
      test::Rows logits;
      for (int at = 0; at < 33; at += chunk) // each pass leaves a block behind what it reads
        logits = draft_block(pair, at, std::min(at + chunk, 33), 3);
      CHECK(test::same_bits(logits, expected));
      CHECK(test::same_bits(draft_block(pair, 32, 33, 3), expected)); // the last token once more
      CHECK(test::same_bits(draft_block(pair, 32, 33, 3, 2), {expected[2]}));
    }
  }
}

TEST_CASE("blocks of several sequences in one pass have the bits of each alone") {
  test::HeadPair pair(load_drafter_case("original"));
  const std::vector<TokenId> tokens = drafter_prompt();
  pair.read(tokens);
  const test::Rows first = draft_block(pair, 0, 20, 5);
  const test::Rows second = draft_block(pair, 0, 9, 2, 1);
  const auto pages = pair.drafter.take_pages(64);
  const Features features{&pair.target.pool(), pair.target_pages, 39};
  const auto fed = [&](int count) { return std::span(tokens).first(std::size_t(count)); };
  const auto own = pair.drafter.take_pages(64);
  const auto third = pair.drafter.take_pages(64);
  const SequenceRows batch[] = {
      {.pages = pages, .tokens = fed(20), .logits_from = 20, .features = features, .masks = 5},
      {.pages = third, .tokens = fed(30), .logits_from = 30, .features = features},
      {.pages = own, .tokens = fed(9), .logits_from = 10, .features = features, .masks = 2}};
  test::Rows expected = first;
  expected.insert(expected.end(), second.begin(), second.end());
  CHECK(test::same_bits(pair.drafter.run(batch), expected));
}

TEST_CASE("a drafter says what it is, and keeps no features of its own") {
  const Head head = load_drafter_case("with windows");
  CHECK(head.model->info().architecture == "DFlash drafter");
  CHECK(head.model->block_tokens() == 7);
  CHECK(head.model->kv_shape(16).features == 0);
  CHECK(head.model->info().shared_bytes == 2u * 160 * 48 * 4); // embedding and output layer
  CHECK(head.target->kv_shape(16).features == 3 * 48);
  CHECK(head.says.empty());
  const Head own = load_drafter_case("speculators");
  CHECK(own.model->info().vocabulary == 40);
  CHECK(own.says.size() == 160);
  CHECK(own.model->info().shared_bytes == 0);
}

TEST_CASE("drafters of other targets are refused, and it is said what differs") {
  check_drafter_config_refused("original", {{"target_hidden_size", 64}},
                               {"hidden_size 64", "has 48"});
  check_drafter_config_refused("original", {{"vocab_size", 161}}, {"vocab_size 161", "has 160"});
  check_drafter_config_refused("original", {{"num_target_layers", 36}}, {"36 layers", "has 6"});
  check_drafter_config_refused("speculators", {{"aux_hidden_state_layer_ids", json::array{1, 6}}},
                               {"more than 6 layers", "has 6"});
  check_option_refused({{"target_layer_ids", json::array{1, 5}}}, {"more than 6 layers"});
}

TEST_CASE("what is no DFlash drafter that is known is refused by name") {
  check_drafter_config_refused("original", {{"architectures", json::array{"DFlash2DraftModel"}}},
                               {"no DFlash drafter"});
  check_drafter_config_refused("original", {{"dflash_config", nullptr}}, {"dflash_config"});
  check_drafter_config_refused("original", {{"model_type", "llama"}}, {"model_type", "qwen3"});
  check_drafter_config_refused("speculators", {{"speculators_model_type", "eagle3"}}, {"eagle3"});
  check_drafter_config_refused("speculators", {{"transformer_layer_config", 7}},
                               {"transformer_layer_config"});
  check_drafter_config_refused("original", {{"block_size", 1}}, {"block_size"});
  check_drafter_config_refused("original", {{"is_neox_style", false}}, {"is_neox_style"});
  check_drafter_config_refused("original",
                               {{"layer_types", json::array{"full_attention", "linear"}}},
                               {"layer_types", "linear"});
  check_drafter_config_refused("with windows", {{"sliding_window", nullptr}}, {"sliding_window"});
  check_drafter_config_refused("with windows", {{"is_causal", false}}, {"layer 0", "both ways"});
  for (const char* option : {"attention_sink_bias", "sample_from_anchor"})
    check_option_refused({{option, true}}, {option});
  check_option_refused({{"attention_value_scale", 0.5}}, {"attention_value_scale"});
  check_option_refused({{"use_aux_hidden_state", false}}, {"use_aux_hidden_state"});
  check_option_refused({{"selector_rank", 8}}, {"selector_rank"});
  check_option_refused({{"mask_token_id", 160}}, {"mask_token_id"});
  check_option_refused({{"mask_token_id", nullptr}}, {"mask_token_id"});
  for (const json::value& ids :
       {json::value(nullptr), json::value(json::array()), json::value(json::array{-1}),
        json::value(json::array{1, "2"}), json::value("all")})
    check_option_refused({{"target_layer_ids", ids}}, {"target_layer_ids"});
}

TEST_CASE("an embedding of the mask beside the weights is refused: it would not be read") {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, drafter_case("original"), gpu::DType::f32);
  folder.write("mask_embedding.pt", "PK");
  check_drafter_refused(folder, {"mask_embedding.pt"});
}

TEST_CASE("a drafter that lacks a tensor, or has one that nothing reads, is refused by name") {
  for (const char* name : {"fc.weight", "hidden_norm.weight", "norm.weight",
                           "layers.1.self_attn.q_norm.weight", "layers.0.mlp.up_proj.weight"})
    check_drafter_weights_refused("original", [&](test::WeightsFile& w) { w.remove(name); },
                                  {name});
  check_drafter_weights_refused("speculators",
                                [](test::WeightsFile& w) { w.remove("embed_tokens.weight"); },
                                {"embed_tokens.weight"}); // that of the target is wider
  check_drafter_weights_refused("speculators", [](test::WeightsFile& w) { w.remove("d2t"); },
                                {"d2t"});
  check_drafter_weights_refused(
      "original",
      [](test::WeightsFile& w) { w.put("markov.weight", "F32", {1}, std::string(4, '\0')); },
      {"markov.weight"});
}
