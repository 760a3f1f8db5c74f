// Folders of models that also see: their text part is read as if it were alone.
#include "models/checkpoint/folder.hpp"
#include "models/quantize.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/models/written_gguf.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

/// How a folder names the text part of a reference case, and its other parts.
struct Seeing {
  const char* text; ///< Name of the case.
  const char* architecture;
  const char* model_type;
  const char* prefix; ///< In the place of "model."
  const char* head;
  std::vector<std::string> others;
};

const std::vector<std::string> of_qwen{"model.visual.blocks.0.norm1.weight", "mtp.fc.weight"};
const std::vector<std::string> that_hear{
    "model.vision_tower.std_bias", "model.embed_vision.embedding_projection.weight",
    "model.audio_tower.output_proj.weight", "model.embed_audio.embedding_projection.weight"};
const std::vector<std::string> older{"vision_tower.post_layernorm.weight",
                                     "multi_modal_projector.linear.weight"};
const std::vector<std::string> newer{"model.vision_tower.post_layernorm.weight",
                                     "model.multi_modal_projector.linear.weight"};
constexpr const char* hub_prefix = "language_model.model.";
constexpr const char* hub_head = "language_model.lm_head";
constexpr const char* new_prefix = "model.language_model.";

const std::vector<Seeing> all{
    {"Qwen 3.5", "Qwen3_5ForConditionalGeneration", "qwen3_5", new_prefix, "lm_head", of_qwen},
    {"Qwen 3.5 MoE", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", new_prefix, "lm_head",
     of_qwen},
    {"Gemma 3", "Gemma3ForConditionalGeneration", "gemma3", hub_prefix, hub_head, older},
    {"Gemma 3, new spelling", "Gemma3ForConditionalGeneration", "gemma3", new_prefix, "lm_head",
     newer},
    {"Gemma 4 with embeddings of layers, and keys that these share",
     "Gemma4ForConditionalGeneration", "gemma4", new_prefix, "lm_head", that_hear},
    {"Gemma 4 MoE", "Gemma4ForConditionalGeneration", "gemma4", new_prefix, "lm_head", that_hear},
    {"Mistral without one", "Mistral3ForConditionalGeneration", "mistral3", hub_prefix, hub_head,
     older},
    {"Mistral without one", "Mistral3ForConditionalGeneration", "mistral3", new_prefix, "lm_head",
     newer},
    {"Ministral 3", "Mistral3ForConditionalGeneration", "mistral3", hub_prefix, hub_head, older},
};

const Seeing& seeing_like(std::string_view text) {
  return *std::ranges::find(all, text,
                            [](const Seeing& each) { return std::string_view(each.text); });
}

/// A folder of the text alone, and one of a model that also sees.
struct Folders {
  explicit Folders(const Seeing& seeing) {
    json::object entry = test::reference_case(seeing.text);
    entry["shards"] = 1;
    test::write_checkpoint(plain, entry, gpu::DType::bf16);
    test::WeightsFile weights(plain.path());
    for (const std::string& tensor : weights.names())
      if (tensor.starts_with("model."))
        weights.rename(tensor, seeing.prefix + tensor.substr(6));
      else if (tensor == "lm_head.weight")
        weights.rename(tensor, seeing.head + std::string(".weight"));
    for (const std::string& other : seeing.others)
      weights.put(other, "BF16", {2}, std::string(4, '\0'));
    folder.write("model.safetensors", weights.bytes());
    text = entry.at("config").as_object();
    text.erase("architectures");
    config = {{"model_type", seeing.model_type},
              {"architectures", {seeing.architecture}},
              {"vision_config", {{"depth", 27}}}};
    write();
  }

  void write() {
    config["text_config"] = text;
    folder.write("config.json", json::serialize(config));
  }

  test::TemporaryFolder plain;
  test::TemporaryFolder folder;
  json::object text;
  json::object config;
};

std::string refusal(const std::string& folder) {
  const auto read = FolderSource(folder).config();
  REQUIRE_FALSE(read);
  return read.error().text();
}

} // namespace

TEST_CASE("a folder of a model that also sees is read for its text") {
  for (const Seeing& seeing : all) {
    CAPTURE(std::string(seeing.text));
    CAPTURE(std::string(seeing.prefix));
    Folders folders(seeing);
    CHECK(test::same_bits(test::logits_at(folders.folder.path()),
                          test::logits_at(folders.plain.path())));
    CHECK(FolderSource(folders.folder.path()).config()->text_only);
    folders.text["hidden_size"] = "wide";
    folders.write();
    CHECK(refusal(folders.folder.path()).find("config.json: text_config: hidden_size") !=
          std::string::npos);
    folders.folder.write("config.json",
                         json::serialize(json::object{{"architectures", {seeing.architecture}},
                                                      {"text_config", 7}}));
    CHECK(refusal(folders.folder.path()).find("text_config is not an object") != std::string::npos);
  }
}

TEST_CASE("sizes that Gemma 3 leaves out are those of its program") {
  Folders folders(seeing_like("Gemma 3"));
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "vocab_size",
                          "max_position_embeddings", "head_dim"})
    folders.text.erase(key);
  folders.write();
  const auto config = FolderSource(folders.folder.path()).config();
  REQUIRE_MESSAGE(config, config.error().text());
  CHECK(config->heads == 8);
  CHECK(config->kv_heads == 4);
  CHECK(config->head_dim == 256);
  CHECK(config->vocabulary == 262'208);
  CHECK(config->context == 131'072);
}

TEST_CASE("Ministral 3 ends where its queries would be scaled") {
  Folders folders(seeing_like("Ministral 3"));
  const auto context = [&] { return FolderSource(folders.folder.path()).config().value().context; };
  CHECK(context() == 96);
  folders.text.at("rope_parameters").as_object().erase("llama_4_scaling_beta");
  folders.write();
  CHECK(context() == 96 * 16);
}

TEST_CASE("the text part of a folder is quantized, its other parts are not") {
  const Folders folders(seeing_like("Gemma 3"));
  QuantizeOptions options;
  options.blocks = {WeightFormat::mxfp8, ScaleChoice::search};
  const auto written =
      quantize_checkpoint(folders.folder.path(), folders.folder.file("out"), options);
  REQUIRE_MESSAGE(written, written.error().text());
  LoadOptions load;
  load.blocks = options.blocks;
  const auto loaded = test::load(folders.folder.path(), test::device(), load);
  REQUIRE_MESSAGE(loaded, loaded.error().text());
  CHECK(test::same_bits(test::logits_at(folders.folder.file("out")),
                        test::logits_of(*loaded, test::some_tokens(40, 160))));
}

TEST_CASE("the text part of a folder becomes the GGUF file of the text alone") {
  for (const char* name : {"Qwen 3.5 MoE", "Gemma 3", "Gemma 4 MoE", "Ministral 3"}) {
    CAPTURE(std::string(name));
    Folders folders(seeing_like(name));
    if (folders.text.contains("query_pre_attn_scalar")) { // The head's length is what files mean.
      folders.text["query_pre_attn_scalar"] = 16;
      folders.write();
    }
    const test::TemporaryFolder out;
    for (const test::TemporaryFolder* folder : {&folders.folder, &folders.plain})
      test::write_texts(*folder);
    json::object plain =
        json::parse(testing::read_file(folders.plain.file("config.json"))).as_object();
    if (plain.contains("query_pre_attn_scalar"))
      plain["query_pre_attn_scalar"] = 16;
    folders.plain.write("config.json", json::serialize(plain));
    const QuantizeOptions eight = test::as(WeightFormat::q8_0);
    test::written(folders.folder.path(), out.file("seeing.gguf"), eight);
    test::written(folders.plain.path(), out.file("plain.gguf"), eight);
    test::check_twins(out.file("seeing.gguf"), out.file("plain.gguf"));
  }
}
