// A tiny Gemma 4 with an assistant that drafts for it.
#pragma once

#include "base/bf16.hpp"
#include "tests/engine/tiny_model.hpp"
#include "tests/models/weights_file.hpp"

#include <boost/json.hpp>
#include <cstring>
#include <string>
#include <utility>

namespace paceline::testing {

/// A target whose layers add little to a token's embedding, and an assistant that reads some of
/// that embedding and of the target's row, and says what these say in the target's own output
/// layer: it is often right, and not always.
class GemmaWithAssistant {
public:
  /// number: of assistant_cases.
  explicit GemmaWithAssistant(std::size_t number = 0) : target_(target_entry(number)) {
    boost::json::object entry = models::test::assistant_cases()[number].as_object();
    soften(entry);
    entry["config"].as_object()["centroid_intermediate_top_k"] = 4; // Of 5, if there are any.
    models::test::write_checkpoint(folder_, entry, gpu::DType::bf16);
    models::test::WeightsFile target(target_.path());
    models::test::WeightsFile own(folder_.path());
    char* const head = target.at("lm_head.weight");
    for (int id = 0; id < tiny_vocabulary; ++id) {
      char* const row = head + 2 * wide * id;
      std::memcpy(own.at("model.embed_tokens.weight") + 2 * narrow * id, row, 2 * narrow);
      for (int i = narrow; i < wide; ++i) // what the assistant does not see
        set(row, i, 0.5f * get(row, i));
    }
    for (int out = 0; out < narrow; ++out)
      for (int in = 0; in < 2 * wide; ++in)
        set(own.at("pre_projection.weight") + 4 * wide * out, in,
            in == out          ? 1.0f
            : in == wide + out ? 0.2f
                               : 0.0f);
    target_.folder().write("model.safetensors", target.bytes());
    folder_.write("model.safetensors", own.bytes());
  }
  std::string target() const { return target_.path(); }
  std::string draft() const { return "gemma4-assistant:" + folder_.path(); }

private:
  static constexpr int wide = 48;   ///< Width of the target's rows.
  static constexpr int narrow = 32; ///< Width of the assistant's.

  static float get(const char* row, int i) {
    base::bf16 number{};
    std::memcpy(&number.bits, row + 2 * i, 2);
    return base::to_float(number);
  }
  static void set(char* row, int i, float value) {
    const base::bf16 number = base::to_bf16(value);
    std::memcpy(row + 2 * i, &number.bits, 2);
  }

  static void soften(boost::json::object& entry) {
    for (boost::json::value& tensor : entry["tensors"].as_array()) {
      const std::string name(tensor.as_array()[0].as_string());
      boost::json::value& scale = tensor.as_array()[2];
      if (name.find("post_") != name.npos && name.find("norm") != name.npos) {
        scale = 0.03;
        tensor.as_array()[3] = 0.03;
      }
      if (name.ends_with("norm.weight") && name.find("layers") == name.npos)
        scale = 0;
    }
  }

  static boost::json::object target_entry(std::size_t number) {
    const boost::json::value& name = models::test::assistant_cases()[number].at("target");
    boost::json::object entry = models::test::reference_case(name.as_string());
    entry["shards"] = 1;
    soften(entry);
    entry["config"].as_object()["tie_word_embeddings"] = false;
    entry["tensors"].as_array().push_back(
        {"lm_head.weight", boost::json::array{tiny_vocabulary, wide}, 0.6, 0.0});
    return entry;
  }

  TinyModel target_;
  models::test::TemporaryFolder folder_;
};

} // namespace paceline::testing
