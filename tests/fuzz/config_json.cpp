// Any config.json is read, with every number in its range, or refused.
#include "models/config.hpp"
#include "models/limits.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "text/limits.hpp"

void paceline::testing::fuzz(std::string_view input) {
  static const OneFile file("config.json");
  file.write(input);
  if (const auto config = models::load_config(file.folder())) {
    require(config->layers > 0 && config->layers <= models::limits::layers_max, "layers in range");
    require(config->heads > 0 && config->kv_heads > 0 && config->heads % config->kv_heads == 0,
            "query heads share KV heads evenly");
    require(config->vocabulary > 0 && config->vocabulary <= text::limits::vocabulary_max,
            "vocabulary in range");
  } else {
    require(config.error().text().find('\n') == std::string::npos, "an error is one line");
  }
  (void)models::load_generation_defaults(file.folder());
}
