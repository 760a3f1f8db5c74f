// What is special about folders of GPT-2, GPT-NeoX, OPT, GPT-J and CodeGen. What they compute is
// compared with the reference in reference_test.cpp.
#include "models/quantize.hpp"
#include "models/sources.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <functional>
#include <utility>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using test::Rows;

void write_case(const test::TemporaryFolder& folder, const char* name) {
  json::object entry = test::reference_case(name);
  entry["shards"] = 1;
  test::write_checkpoint(folder, entry, gpu::DType::bf16);
}

/// The logits of a case whose tensors `change` has changed.
Rows logits_with(const char* name, const std::function<void(test::WeightsFile&)>& change) {
  const test::TemporaryFolder folder;
  write_case(folder, name);
  test::WeightsFile weights(folder.path());
  change(weights);
  folder.write("model.safetensors", weights.bytes());
  return test::logits_at(folder.path());
}

void strip(test::WeightsFile& weights, const std::string& prefix) {
  for (const std::string& name : weights.names())
    if (name.starts_with(prefix))
      weights.rename(name, name.substr(prefix.size()));
}

std::string refused(const char* name, const json::object& change) {
  const auto model = test::load_reference(test::reference_case(name), gpu::DType::f32, change);
  REQUIRE(!model);
  return model.error().text();
}

} // namespace

TEST_CASE("folders may name tensors as other programs do, and have masks besides") {
  const std::string mask(128 * 128, '\1');
  const std::string number("\0\0\0\0", 4);
  const auto same = [](test::WeightsFile&) {};
  CHECK(test::same_bits(logits_with("GPT-2",
                                    [&](test::WeightsFile& weights) {
                                      strip(weights, "transformer.");
                                      weights.put("h.0.attn.bias", "U8", {1, 1, 128, 128}, mask);
                                      weights.put("h.0.attn.masked_bias", "F32", {}, number);
                                    }),
                        logits_with("GPT-2", same)));
  CHECK(test::same_bits(
      logits_with("Pythia",
                  [&](test::WeightsFile& weights) {
                    const std::string attention = "gpt_neox.layers.1.attention.";
                    weights.rename("embed_out.weight", "lm_head.weight");
                    weights.put(attention + "bias", "BOOL", {1, 1, 128, 128}, mask);
                    weights.put(attention + "masked_bias", "F32", {}, number);
                    weights.put(attention + "rotary_emb.inv_freq", "F32", {1}, number);
                  }),
      logits_with("Pythia", same)));
  CHECK(test::same_bits(
      logits_with("CodeGen",
                  [&](test::WeightsFile& weights) {
                    weights.put("transformer.h.2.attn.causal_mask", "U8", {1, 1, 128, 128}, mask);
                  }),
      logits_with("CodeGen", same)));
  CHECK(test::same_bits(
      logits_with("OPT", [&](test::WeightsFile& weights) { strip(weights, "model."); }),
      logits_with("OPT", same)));
}

TEST_CASE("a shorter context reads the first learned positions") {
  for (const char* name : {"GPT-2", "OPT"}) {
    CAPTURE(std::string(name));
    const test::TemporaryFolder folder;
    write_case(folder, name);
    LoadOptions options;
    options.max_positions = 40;
    CHECK(test::same_bits(test::logits_at(folder.path(), options), test::logits_at(folder.path())));
  }
}

TEST_CASE("drafts of the same weights in four bits share everything but the blocks' layers") {
  const gpu::Quantization four{WeightFormat::mxfp4, ScaleChoice::search};
  for (const char* name : {"GPT-2", "Pythia", "OPT", "GPT-J", "CodeGen"}) {
    CAPTURE(std::string(name));
    const test::TemporaryFolder folder;
    write_case(folder, name);
    LoadOptions own;
    own.blocks = four;
    own.drafts = true;
    LoadOptions draft = own;
    draft.shared = test::load(folder.path(), test::device(), {}).value();
    CHECK(test::same_bits(test::logits_at(folder.path(), draft),
                          test::logits_at(folder.path(), own)));
  }
}

TEST_CASE("a stage of these families on another machine takes its layers only") {
  for (const char* name : {"GPT-2", "OPT", "GPT-J"}) {
    CAPTURE(std::string(name));
    const test::TemporaryFolder folder;
    write_case(folder, name);
    LoadOptions options;
    options.only = LayerRange{1, 1};
    const auto stage = test::load(folder.path(), test::device(), options);
    REQUIRE_MESSAGE(stage, stage.error().text());
    CHECK((*stage)->info().layers == 1);
  }
}

TEST_CASE("what these families have in other sizes is refused by name") {
  const auto says = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  says(refused("OPT", {{"do_layer_norm_before", false}}), "do_layer_norm_before = false");
  says(refused("OPT", {{"word_embed_proj_dim", 32}}), "word_embed_proj_dim other than hidden_size");
  says(refused("OPT", {{"_remove_final_layer_norm", true}}), "_remove_final_layer_norm");
  says(refused("OPT", {{"layer_norm_elementwise_affine", false}}), "layer_norm_elementwise_affine");
  says(refused("OPT", {{"ffn_dim", "wide"}}), "ffn_dim");
  says(refused("GPT-2", {{"scale_attn_by_inverse_layer_idx", true}}),
       "scale_attn_by_inverse_layer_idx");
  says(refused("GPT-2", {{"n_embd", "wide"}}), "n_embd");
  says(refused("GPT-2", {{"n_positions", 127}}), "wpe");
  says(refused("GPT-J", {{"tie_word_embeddings", true}}), "tie_word_embeddings");
  says(refused("GPT-J", {{"rotary_dim", 18}}), "rotary_dim");
  says(refused("CodeGen", {{"n_head", 2}}), "n_head 2 is not a multiple of 4");
}

TEST_CASE("one tensor in parts has as many keys as queries") {
  for (const auto& [name, heads] : {std::pair("Pythia", 4), {"CodeGen", 8}}) {
    CAPTURE(std::string(name));
    const test::TemporaryFolder folder;
    json::object entry = test::reference_case(name);
    entry["config"].as_object()["num_key_value_heads"] = 1;
    for (json::value& tensor : entry["tensors"].as_array())
      if (json::array& shape = tensor.at(1).as_array(); shape.front() == 3 * 64)
        shape.front() = 64 + 2 * 64 / heads;
    test::write_checkpoint(folder, entry, gpu::DType::f32);
    const auto model = test::load(folder.path(), test::device(), {});
    REQUIRE(!model);
    CHECK(paceline::testing::says(model.error(), "num_key_value_heads 1"));
  }
}

TEST_CASE("blocks of a matrix whose rows are inputs are refused by the tensor's name") {
  const test::TemporaryFolder folder;
  write_case(folder, "GPT-2");
  json::object config = test::reference_case("GPT-2").at("config").as_object();
  config["quantization_config"] = {{"quant_method", "quark"}};
  folder.write("config.json", json::serialize(config));
  test::WeightsFile weights(folder.path());
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  weights.put(name, "I8", {64, 256}, std::string(std::size_t(64) * 256, '\1'));
  weights.put(name + "_scale", "U8", {64, 8}, std::string(std::size_t(64) * 8, '\177'));
  folder.write("model.safetensors", weights.bytes());
  const auto model = test::load(folder.path(), test::device(), {});
  REQUIRE(!model);
  CHECK(paceline::testing::says(model.error(), name + " has blocks of outputs"));
}

TEST_CASE("these families are quantized in their folders as they are when loaded, bit for bit") {
  const gpu::Quantization four{WeightFormat::mxfp4, ScaleChoice::search};
  for (const char* name : {"Pythia", "OPT", "GPT-J", "CodeGen", "GPT-NeoX in turn"}) {
    CAPTURE(std::string(name));
    const test::TemporaryFolder folder;
    write_case(folder, name);
    for (const bool head : {false, true}) {
      QuantizeOptions options{four, head ? std::optional(four) : std::nullopt, {}, {}};
      LoadOptions load;
      load.blocks = options.blocks;
      load.head = options.head;
      const std::string out = folder.file(head ? "with_head" : "blocks");
      const auto written = quantize_checkpoint(folder.path(), out, options);
      REQUIRE_MESSAGE(written, written.error().text());
      CHECK(written->kinds.size() >= 4);
      CHECK(test::same_bits(test::logits_at(out), test::logits_at(folder.path(), load)));
    }
  }
  const test::TemporaryFolder folder;
  write_case(folder, "GPT-2");
  const auto refused = quantize_checkpoint(folder.path(), folder.file("out"), {four, {}, {}, {}});
  REQUIRE(!refused);
  CHECK(paceline::testing::says(refused.error(), "rows are inputs"));
}
