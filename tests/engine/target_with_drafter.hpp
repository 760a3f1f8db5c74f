// A tiny target, and a DFlash drafter on it.
#pragma once

#include "base/bf16.hpp"
#include "tests/engine/tiny_model.hpp"
#include "tests/models/weights_file.hpp"

#include <boost/json.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// A target whose layers add little to a token's embedding, and a drafter of five tokens. Its first
/// layer brings each row the one before it, which tells the first row of a block the token before;
/// the second mixes all of the block and of the target's states into the rows. So the first token
/// of a block is often right, and later ones are seldom.
class TargetWithDrafter {
public:
  TargetWithDrafter() : target_(softened()) {
    models::test::WeightsFile weights(target_.path());
    std::memset(weights.at("model.embed_tokens.weight") + 2 * hidden * mask, 0, 2 * hidden);
    target_.folder().write("model.safetensors", weights.bytes());
    target_.folder().write("generation_config.json", R"({"eos_token_id": 158})");
    write_drafter();
  }
  std::string path() const { return target_.path(); }
  /// Returns the name of the draft.
  std::string drafter() const { return "dflash:" + folder_.path(); }

private:
  static constexpr int hidden = 48;
  static constexpr int ffn = 56;
  static constexpr int mask = 159;

  static boost::json::object softened() {
    boost::json::object entry = data("dflash.json").at("target").as_object();
    boost::json::object& own = entry["config"].as_object();
    own["num_attention_heads"] = 6; // Of 8 dimensions, which GPUs take, too.
    own["num_key_value_heads"] = 3;
    for (boost::json::value& tensor : entry["tensors"].as_array()) {
      const std::string name(tensor.as_array()[0].as_string());
      boost::json::value& scale = tensor.as_array()[2];
      if (name.find("o_proj") != name.npos || name.find("down_proj") != name.npos)
        scale = 0.25 * scale.to_number<double>();
      if (name == "model.norm.weight")
        scale = 0;
    }
    return entry;
  }

  static boost::json::object config() {
    return {{"architectures", boost::json::array{"DFlashDraftModel"}},
            {"model_type", "qwen3"},
            {"hidden_size", hidden},
            {"intermediate_size", ffn},
            {"num_hidden_layers", 2},
            {"num_target_layers", 6},
            {"num_attention_heads", 3},
            {"num_key_value_heads", 3},
            {"head_dim", 16},
            {"max_position_embeddings", 128},
            {"rms_norm_eps", 1e-6},
            {"vocab_size", tiny_vocabulary},
            {"hidden_act", "silu"},
            {"block_size", 6},
            {"layer_types", {"sliding_attention", "full_attention"}},
            {"sliding_window", 2},
            {"dflash_config", {{"mask_token_id", mask}, {"target_layer_ids", {1, 3}}}}};
  }

  void write_drafter() {
    boost::json::array tensors;
    const auto add = [&](const std::string& name, std::vector<int> shape, double scale,
                         double offset = 0) {
      tensors.push_back({name, boost::json::array(shape.begin(), shape.end()), scale, offset});
    };
    const auto norm = [&](const std::string& name, int size) { add(name, {size}, 0, 1); };
    add("fc.weight", {hidden, 2 * hidden}, 0.2);
    norm("hidden_norm.weight", hidden);
    norm("norm.weight", hidden);
    for (int i = 0; i < 2; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      for (const char* name : {"q", "k", "v", "o"})
        add(layer + "self_attn." + name + "_proj.weight", {hidden, hidden}, i == 0 ? 0 : 0.1);
      for (const char* name : {"q", "k"})
        norm(layer + "self_attn." + name + "_norm.weight", 16);
      for (const char* name : {"input", "post_attention"})
        norm(layer + name + "_layernorm.weight", hidden);
      add(layer + "mlp.gate_proj.weight", {ffn, hidden}, 0.1);
      add(layer + "mlp.up_proj.weight", {ffn, hidden}, 0.1);
      add(layer + "mlp.down_proj.weight", {hidden, ffn}, i == 0 ? 0 : 0.05);
    }
    const boost::json::object entry{{"config", config()}, {"shards", 1}, {"tensors", tensors}};
    models::test::write_checkpoint(folder_, entry, gpu::DType::bf16);
    models::test::WeightsFile weights(folder_.path());
    for (const auto& [name, diagonal] : {std::pair("v", 1.0f), {"o", 4.0f}})
      for (int i = 0; i < hidden; ++i) {
        const base::bf16 number = base::to_bf16(diagonal);
        std::memcpy(weights.at("layers.0.self_attn." + std::string(name) + "_proj.weight") +
                        2 * (hidden * i + i),
                    &number.bits, 2);
      }
    folder_.write("model.safetensors", weights.bytes());
  }

  TinyModel target_;
  models::test::TemporaryFolder folder_;
};

} // namespace paceline::testing
