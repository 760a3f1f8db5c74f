// What is special about Gemma 4: layers that differ in their heads, that read the keys of others,
// and that have inputs of their own. What it computes is compared with the reference in
// reference_test.cpp.
#include "models/checkpoint/folder.hpp"
#include "models/quantize.hpp"
#include "models/sources.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using paceline::testing::says;
using test::Rows;

constexpr const char* with_inputs = "Gemma 4 with embeddings of layers, and keys that these share";
constexpr const char* sharing = "Gemma 4 that shares keys without such embeddings";

struct Folder {
  explicit Folder(const char* name, gpu::DType dtype = gpu::DType::bf16) {
    json::object entry = test::reference_case(name);
    entry["shards"] = 1;
    test::write_checkpoint(folder, entry, dtype);
    config = entry.at("config").as_object();
  }
  void write_config() { folder.write("config.json", json::serialize(config)); }

  test::TemporaryFolder folder;
  json::object config;
};

std::shared_ptr<const Model> loaded(const std::string& location, const LoadOptions& options = {}) {
  const auto model = test::load(location, test::device(), options);
  REQUIRE_MESSAGE(model, model.error().text());
  return *model;
}

Error refused(const char* name, const json::object& change) {
  const auto model = test::load_reference(test::reference_case(name), gpu::DType::f32, change);
  REQUIRE(!model);
  return model.error();
}

Error refused_stages(const char* name, const std::vector<int>& layers) {
  const Folder own(name);
  LoadOptions options;
  options.stage_layers = layers;
  const Devices devices(layers.size(), test::device());
  const auto stages = load_model(*test::source_of(own.folder.path()), devices, options);
  REQUIRE(!stages);
  return stages.error();
}

} // namespace

TEST_CASE("only layers with keys of their own have pages, each as large as its heads") {
  const Folder own(with_inputs);
  const auto model = loaded(own.folder.path());
  // Two layers that slide, with a head of 16, and one with a head of 32; three others share.
  CHECK(model->kv_shape(8).bytes() == 8 * 2 * (16 + 16 + 32) * sizeof(std::uint16_t));
  const ModelConfig config = FolderSource(own.folder.path()).config().value();
  CHECK(config.pages_of(5, 0, 8, gpu::KvType::bf16).begin ==
        config.pages_of(2, 0, 8, gpu::KvType::bf16).begin);
  CHECK(config.pages_of(4, 0, 8, gpu::KvType::bf16).head_dim == 16);
}

TEST_CASE("keys that a file has for layers that share others' are not read") {
  const Folder own(with_inputs);
  const Rows expected = test::logits_at(own.folder.path());
  test::WeightsFile weights(own.folder.path());
  const std::string attention = "model.layers.4.self_attn.";
  for (const char* name : {"k_proj.weight", "v_proj.weight"})
    weights.put(attention + name, "BF16", {16, 48}, std::string(2 * 16 * 48, '\0'));
  weights.put(attention + "k_norm.weight", "BF16", {16}, std::string(2 * 16, '\0'));
  own.folder.write("model.safetensors", weights.bytes());
  CHECK(test::same_bits(test::logits_at(own.folder.path()), expected));
  QuantizeOptions options;
  options.blocks = {WeightFormat::mxfp8, ScaleChoice::search};
  LoadOptions load;
  load.blocks = options.blocks;
  const std::string out = own.folder.file("out");
  const auto written = quantize_checkpoint(own.folder.path(), out, options);
  REQUIRE_MESSAGE(written, written.error().text());
  CHECK(test::same_bits(test::logits_at(out), test::logits_at(own.folder.path(), load)));
}

TEST_CASE("rows of a prompt end at the last layer with keys of its own, whatever is asked for") {
  const auto tokens = test::some_tokens(40, 160);
  const std::span<const TokenId> all(tokens);
  for (const char* name : {with_inputs, sharing, "Gemma 4 MoE"}) {
    CAPTURE(std::string(name));
    const Folder own(name);
    const auto model = loaded(own.folder.path());
    const Rows expected = test::logits_of(model, tokens);
    test::Runner runner(model, 8);
    const auto pages = runner.take_pages(40);
    const SequenceRows first{pages, 0, all.first(24), 24};
    CHECK(runner.run({&first, 1}).empty());
    const SequenceRows rest{pages, 24, all.subspan(24), 14};
    CHECK(test::same_bits(runner.run({&rest, 1}), {expected[38], expected[39]}));
    CHECK(runner.nearly_done() == 2);
  }
}

TEST_CASE("what the hub and what newer files say of large heads is the same") {
  Folder own("Gemma 4");
  const Rows expected = test::logits_at(own.folder.path());
  own.config.erase("global_head_dim");
  own.config.erase("num_global_key_value_heads");
  const json::object large{{"head_dim", 32}, {"num_key_value_heads", 1}};
  own.config["per_layer_config"] = json::object{{"1", large}, {"3", large}};
  own.write_config();
  CHECK(test::same_bits(test::logits_at(own.folder.path()), expected));
  own.config["layer_types"].as_array().back() = "sliding_attention"; // It sees everything anyway.
  own.write_config();
  CHECK(test::same_bits(test::logits_at(own.folder.path()), expected));
}

TEST_CASE("a Gemma 4 that drafts for itself in four bits shares all but its blocks' layers") {
  const gpu::Quantization four{WeightFormat::mxfp4, ScaleChoice::search};
  for (const char* name : {"Gemma 4", with_inputs, sharing, "Gemma 4 MoE"}) {
    CAPTURE(std::string(name));
    const Folder own(name);
    LoadOptions alone;
    alone.blocks = four;
    alone.drafts = true;
    LoadOptions draft = alone;
    draft.shared = loaded(own.folder.path());
    CHECK(test::same_bits(test::logits_at(own.folder.path(), draft),
                          test::logits_at(own.folder.path(), alone)));
  }
}

TEST_CASE("layers that share keys stay in one stage with those whose keys they read") {
  CHECK(says(refused_stages(sharing, {2, 3}), "layer 3 of"));
  CHECK(says(refused_stages(sharing, {2, 3}), "reads the keys of layer 1"));
  CHECK(says(refused_stages(sharing, {2, 3}), "at least 4 layers"));
  CHECK(says(refused_stages(sharing, {1, 1, 3}), "layer 3 of"));
  const Folder own(with_inputs);
  const auto source = test::source_of(own.folder.path());
  const auto tokens = test::some_tokens(40, 160);
  const Rows expected = test::logits_at(own.folder.path());
  const Stages stages = test::load_stages(*source, Devices(2, test::device()));
  CHECK(stages.back()->info().layers == 5);
  CHECK(test::same_bits(test::in_pieces(stages, tokens, 7, true), expected));
  CHECK(!load_model(*source, Devices(3, test::device()), {}));
  LoadOptions options;
  options.only = LayerRange{0, 3};
  const auto part = test::load(own.folder.path(), test::device(), options);
  REQUIRE(!part);
  CHECK(says(part.error(), "embeddings for each layer"));
}

TEST_CASE("what a Gemma 4 may say and is not known is refused by name") {
  CHECK(says(refused("Gemma 4", {{"use_bidirectional_attention", "all"}}),
             "use_bidirectional_attention \"all\""));
  CHECK(says(refused("Gemma 4", {{"per_layer_config", {{"1", {{"sliding_window", 8}}}}}}),
             "per_layer_config of layer 1: sliding_window"));
  CHECK(says(refused("Gemma 4", {{"per_layer_config", {{"4", {{"head_dim", 8}}}}}}), "holds 4"));
  CHECK(says(refused("Gemma 4", {{"per_layer_config", {{"1", {{"head_dim", 64}}}}}}),
             "heads of 16 dimensions in layer 3"));
  CHECK(says(refused("Gemma 4", {{"num_global_key_value_heads", 3}}), "3 of them of keys"));
  CHECK(says(refused("Gemma 4", {{"rope_parameters", {{"rope_type", "default"}}}}),
             "rope_parameters"));
  CHECK(says(refused(sharing, {{"num_kv_shared_layers", 5}}), "num_kv_shared_layers 5"));
  CHECK(says(refused(with_inputs, {{"vocab_size_per_layer_input", 80}}),
             "vocab_size_per_layer_input 80"));
  CHECK(says(refused("Gemma 4 MoE", {{"num_kv_shared_layers", 1}, {"use_double_wide_mlp", true}}),
             "use_double_wide_mlp"));
  CHECK(says(refused("Gemma 4 MoE", {{"top_k_experts", 9}}), "top_k_experts 9"));
  CHECK(says(refused("Gemma 4 MoE", {{"enable_moe_block", false}}), "num_experts"));
  CHECK(says(refused("Gemma 3", {{"num_kv_shared_layers", 1}}), "num_kv_shared_layers"));
  CHECK(says(refused("Gemma 3", {{"attention_k_eq_v", true}}), "attention_k_eq_v"));
}
