// EAGLE-3 heads in both layouts against the reference (tools/reference/eagle3.py), and what is said
// of those that fit no target or are none.
#include "models/eagle3.hpp"
#include "models/head.hpp"
#include "models/transformer.hpp"
#include "tests/models/head_pair.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

const json::object& reference() {
  static const json::value file = test::data("eagle3.json");
  return file.as_object();
}

const json::object& head_case(std::string_view name) {
  for (const json::value& head : reference().at("heads").as_array())
    if (head.at("name").as_string() == name)
      return head.as_object();
  FAIL("no head " << name);
  throw std::logic_error("unreachable");
}

std::shared_ptr<const Model> load_target() {
  auto loaded = test::load_reference(reference().at("target").as_object(), gpu::DType::f32);
  REQUIRE_MESSAGE(loaded, loaded.error().text());
  return *loaded;
}

Result<Head> load_head_in(const test::TemporaryFolder& folder) {
  static const auto target = load_target();
  return open_eagle3(folder.path(), *config_of(*target), "target").and_then([](HeadSource&& head) {
    return load_head(std::move(head), target, test::device(), {});
  });
}

Head load_case(std::string_view name) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, head_case(name), gpu::DType::f32);
  auto head = load_head_in(folder);
  REQUIRE_MESSAGE(head, head.error().text());
  return std::move(*head);
}

void check_refused(const test::TemporaryFolder& folder, const std::vector<std::string>& words) {
  const auto head = load_head_in(folder);
  REQUIRE_FALSE(head);
  for (const std::string& word : words)
    CHECK(paceline::testing::says(head.error(), word));
}

/// Checks that a head is refused with options of its config.json changed.
void check_config_refused(std::string_view name, const json::object& change,
                          const std::vector<std::string>& words) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, head_case(name), gpu::DType::f32);
  json::object config = head_case(name).at("config").as_object();
  for (const auto& [key, value] : change)
    config[key] = value;
  folder.write("config.json", json::serialize(config));
  check_refused(folder, words);
}

/// Checks that a head is refused with its model.safetensors changed.
template <class Change>
void check_weights_refused(std::string_view name, Change change,
                           const std::vector<std::string>& words) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, head_case(name), gpu::DType::f32);
  test::WeightsFile weights(folder.path());
  change(weights);
  folder.write("model.safetensors", weights.bytes());
  check_refused(folder, words);
}

} // namespace

TEST_CASE("heads of both layouts draft what the reference drafts, first on the target's features") {
  const auto prompt = test::ids_of(reference().at("prompt"));
  for (const char* name : {"original", "speculators", "norm of all", "norms of each"}) {
    CAPTURE(std::string(name));
    const json::object& expected = head_case(name);
    test::HeadPair pair(load_case(name));
    pair.read(prompt);
    const int length = int(prompt.size());
    const auto logits = pair.draft(prompt, 0, length, 1);
    for (const json::value& row : expected.at("rows").as_array())
      CHECK(test::error_of(logits[std::size_t(row.at("position").as_int64() - 1)],
                           row.at("logits")) < 1e-4);
    const auto ids = test::ids_of(expected.at("target_ids"));
    std::vector<float> last = logits.back();
    int position = length;
    for (const json::value& step : expected.at("drafted").as_array()) {
      const auto said = std::max_element(last.begin(), last.end()) - last.begin();
      const TokenId token = ids[std::size_t(said)];
      CHECK(pair.head.says[std::size_t(token)] == said);
      CHECK(token == step.at("token").as_int64());
      // The first drafted token stands behind a position that the target has read.
      last = pair.draft({&token, 1}, position, length - 1, 0).front();
      ++position;
      CHECK(test::error_of(last, step.at("logits")) < 1e-4);
    }
  }
}

TEST_CASE("a head's rows have the same bits in one pass, in chunks and page by page") {
  test::check_chunks([] { return load_case("original"); }, test::ids_of(reference().at("prompt")));
}

TEST_CASE("what the target leaves for a head changes none of its own rows") {
  const auto prompt = test::ids_of(reference().at("prompt"));
  const Head head = load_case("speculators");
  CHECK(head.target->kv_shape(16).features == 3 * 48);
  CHECK(head.model->kv_shape(16).features == 48);
  CHECK(load_target()->kv_shape(16).features == 0);
  CHECK(test::logits_of(head.target, prompt) == test::logits_of(load_target(), prompt));
}

TEST_CASE("a head says what it is, and whose embedding it has") {
  const Head own = load_case("original");
  CHECK(own.model->info().architecture == "EAGLE-3 head");
  CHECK(own.model->info().vocabulary == 40);
  CHECK(own.model->info().shared_bytes == 0);
  const Head shared = load_case("speculators");
  CHECK(shared.model->info().shared_bytes == 160u * 48 * 4);
}

TEST_CASE("heads of other targets are refused, and it is said what differs") {
  check_config_refused("original", {{"target_hidden_size", 64}}, {"hidden_size 64", "has 48"});
  check_config_refused("original", {{"vocab_size", 161}}, {"vocab_size 161", "has 160"});
  check_config_refused("speculators", {{"eagle_aux_hidden_state_layer_ids", json::array{1, 3, 6}}},
                       {"layer 6", "has 6"});
}

TEST_CASE("what is no EAGLE-3 head that is known is refused by name") {
  check_config_refused("speculators", {{"speculators_model_type", "dflash"}}, {"dflash"});
  check_config_refused("speculators", {{"transformer_layer_config", nullptr}},
                       {"transformer_layer_config"});
  check_config_refused("original", {{"architectures", json::array{"MedusaModel"}}},
                       {"no EAGLE-3 head"});
  check_config_refused("original", {{"norm_before_fc", true}, {"fc_norm", true}},
                       {"norm_before_fc", "fc_norm"});
  check_config_refused("original",
                       {{"eagle_config", json::object{{"use_aux_hidden_state", false}}}},
                       {"use_aux_hidden_state"});
  check_config_refused("original", {{"use_aux_hidden_state", false}}, {"use_aux_hidden_state"});
  check_config_refused("original", {{"eagle_config", json::object{{"parallel_drafting", true}}}},
                       {"parallel_drafting"});
  check_config_refused("original", {{"eagle_aux_hidden_state_layer_ids", json::array{1, 2}}},
                       {"eagle_aux_hidden_state_layer_ids", "[1,2]"});
}

TEST_CASE("a head whose first layer does not attend has nothing that reads the features") {
  const test::TemporaryFolder folder;
  json::object head = head_case("speculators");
  json::object& layer = head["config"].as_object()["transformer_layer_config"].as_object();
  layer["architectures"] = json::array{"NemotronHForCausalLM"};
  layer["model_type"] = "nemotron_h";
  layer["hybrid_override_pattern"] = "-";
  test::write_checkpoint(folder, head, gpu::DType::f32);
  test::WeightsFile weights(folder.path());
  for (const std::string& name : weights.names())
    if (name.find("self_attn") != std::string::npos || name.find("input_layernorm") != name.npos ||
        name.find("gate_proj") != name.npos)
      weights.remove(name);
  folder.write("model.safetensors", weights.bytes());
  check_refused(folder, {"layer 0 of NemotronHForCausalLM", "attention"});
}

TEST_CASE("an option is read where it stands, at the top or in eagle_config") {
  const auto before_residual = [](const json::object& change) {
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, head_case("original"), gpu::DType::f32);
    json::object config = head_case("original").at("config").as_object();
    for (const auto& [key, value] : change)
      config[key] = value;
    folder.write("config.json", json::serialize(config));
    static const auto target = load_target();
    const auto head = open_eagle3(folder.path(), *config_of(*target), "target");
    return head.value().model.fusion->norm_before_residual;
  };
  const json::object nested{{"norm_before_residual", true}};
  CHECK_FALSE(before_residual({}));
  CHECK(before_residual(nested));
  CHECK(before_residual({{"eagle_config", nested}}));
  CHECK_FALSE(before_residual({{"norm_before_residual", false}, {"eagle_config", nested}}));
}

TEST_CASE("a pickled head is refused, and it is said how to convert it") {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, head_case("original"), gpu::DType::f32);
  std::filesystem::remove(folder.file("model.safetensors"));
  folder.write("pytorch_model.bin", "PK");
  check_refused(folder, {"model.safetensors", "pytorch_model.bin", "pickled", "save_file"});
}

TEST_CASE("a head that lacks a tensor, or whose tables contradict each other, is refused by name") {
  for (const char* name : {"fc.weight", "d2t", "midlayer.hidden_norm.weight", "norm.weight",
                           "lm_head.weight", "midlayer.mlp.up_proj.weight", "embed_tokens.weight"})
    check_weights_refused("original", [&](test::WeightsFile& w) { w.remove(name); }, {name});
  for (const char* name : {"input_norm.weight", "fc_norm.2.weight"})
    check_weights_refused(name[0] == 'i' ? "norm of all" : "norms of each",
                          [&](test::WeightsFile& w) { w.remove(name); }, {name});
  check_weights_refused("original", [](test::WeightsFile& w) { w.at("d2t")[0] += 1; }, {"d2t"});
  check_weights_refused("original", [](test::WeightsFile& w) { w.at("t2d")[0] ^= 1; }, {"t2d"});
  check_weights_refused(
      "original", [](test::WeightsFile& w) { w.put("d2t", "F32", {40}, std::string(160, '\0')); },
      {"d2t", "F32"});
}
