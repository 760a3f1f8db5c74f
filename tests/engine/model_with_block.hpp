// A tiny recurrent target that brings a block to draft for it (multi-token prediction).
#pragma once

#include "base/bf16.hpp"
#include "tests/engine/tiny_model.hpp"
#include "tests/models/weights_file.hpp"

#include <boost/json.hpp>
#include <cstring>
#include <string>

namespace paceline::testing {

/// A Qwen 3.5 whose layers add little to a token's embedding, and whose block for drafts reads
/// that embedding and some of the target's row: it is often right, and not always.
class ModelWithBlock {
public:
  ModelWithBlock() : model_(softened()) {
    models::test::WeightsFile weights(model_.path());
    char* const fusion = weights.at("mtp.fc.weight");
    for (int out = 0; out < hidden; ++out)
      for (int in = 0; in < 2 * hidden; ++in) {
        char* const at = fusion + 2 * (2 * hidden * out + in);
        base::bf16 number{};
        std::memcpy(&number.bits, at, 2);
        number = base::to_bf16(in < hidden ? float(in == out) : 0.7f * base::to_float(number));
        std::memcpy(at, &number.bits, 2);
      }
    model_.folder().write("model.safetensors", weights.bytes());
  }
  std::string path() const { return model_.path(); }

private:
  static constexpr int hidden = 48;

  static boost::json::object softened() {
    boost::json::object entry = models::test::case_with_mtp("Qwen 3.5");
    entry["shards"] = 1;
    for (boost::json::value& tensor : entry["tensors"].as_array()) {
      const std::string name(tensor.as_array()[0].as_string());
      boost::json::value& scale = tensor.as_array()[2];
      if (name.find("o_proj") != name.npos || name.find("out_proj") != name.npos ||
          name.find("down_proj") != name.npos)
        scale = 0.25 * scale.to_number<double>();
      if (name == "model.norm.weight" ||
          (name.starts_with("mtp.") && name.find("norm.") != name.npos))
        scale = 0;
    }
    return entry;
  }

  TinyModel model_;
};

} // namespace paceline::testing
