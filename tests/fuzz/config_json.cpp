// Any config.json is read, with every number in its range, or refused.
#include "models/checkpoint/folder.hpp"
#include "models/limits.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "text/limits.hpp"

void paceline::testing::fuzz(std::string_view input) {
  static const OneFile file("config.json");
  file.write(input);
  const models::FolderSource source(file.folder());
  if (const auto config = source.config()) {
    require(config->layers > 0 && config->layers <= models::limits::layers_max, "layers in range");
    require(config->heads > 0 && config->kv_heads > 0 && config->heads % config->kv_heads == 0,
            "query heads share KV heads evenly");
    require(config->vocabulary > 0 && config->vocabulary <= text::limits::vocabulary_max,
            "vocabulary in range");
    const models::StoredQuantization& quantization = config->quantization;
    require(quantization.layers.size() <= models::limits::quantized_patterns_max &&
                quantization.block_rows <= models::limits::hidden_max &&
                quantization.block_cols <= models::limits::hidden_max &&
                (quantization.block_rows > 0) == (quantization.block_cols > 0),
            "blocks of scales in range");
    (void)quantization.format_of("model.layers.0.mlp.up_proj");
  } else {
    require(config.error().text().find('\n') == std::string::npos, "an error is one line");
  }
  (void)source.generation_defaults();
}
