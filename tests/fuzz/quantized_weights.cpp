// Any tensors under any quantization_config are handed out within their bytes, or refused. The
// config.json comes first; behind a NUL follows the safetensors file.
#include "models/checkpoint/quantized_weights.hpp"
#include "gpu/mx.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "text/json.hpp"

#include <algorithm>

using namespace paceline;

namespace {

/// Shapes that a layer of this tensor might have by its config.json.
void read_layer(models::QuantizedWeights& weights, const std::string& layer,
                const std::vector<std::int64_t>& shape) {
  for (const std::int64_t cols : {shape[1], shape[1] * 2, shape[1] / 3 * 4}) {
    constexpr std::int64_t most = 1 << 12; // What is asked for comes from checked configurations.
    if (shape[0] < 1 || cols < 1 || shape[0] > most || cols > most || !weights.has(layer))
      continue;
    const auto matrix = weights.matrix(layer, int(shape[0]), int(cols));
    if (!matrix) {
      testing::require(matrix.error().text().find('\n') == std::string::npos,
                       "an error is one line");
      continue;
    }
    testing::require(matrix->rows == shape[0] && matrix->cols == cols, "it has the wanted shape");
    testing::require(!matrix->block_scales ||
                         std::none_of(matrix->block_scales,
                                      matrix->block_scales + shape[0] * gpu::blocks_of(int(cols)),
                                      [](auto scale) { return scale == gpu::mx_nan_scale; }),
                     "scales are numbers");
    weights.release(layer);
  }
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  static const OneFile file("model.safetensors");
  const std::size_t end = std::min(input.find('\0'), input.size());
  const auto object = text::parse_json_object("config.json", input.substr(0, end));
  if (!object)
    return;
  text::JsonFields config("config.json", *object);
  models::StoredQuantization how = models::read_quantization(config, true);
  if (config.error())
    return require(config.error()->text().find('\n') == std::string::npos, "an error is one line");
  file.write(input.substr(std::min(end + 1, input.size())));
  auto files = models::TensorFiles::open(file.folder());
  if (!files)
    return;
  models::QuantizedWeights weights(*files, std::move(how));
  for (const auto& tensor : files->tensors()) {
    const std::string& name = tensor.entry->name;
    if (tensor.entry->shape.size() == 2)
      read_layer(weights, name.substr(0, name.rfind('.')), tensor.entry->shape);
    (void)weights.format_name(*tensor.entry);
  }
}
