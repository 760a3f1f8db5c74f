#include "tests/models/quantized_gguf.hpp"

#include "base/bf16.hpp"
#include "gpu/gguf_format.hpp"
#include "models/sources.hpp"
#include "tests/models/gguf_checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace paceline::models::test {
namespace {

/// The least power of two that is not below x, and a half's bits of it.
float power_above(float x) {
  return std::exp2(std::ceil(std::log2(std::max(x, 0x1p-14f))));
}
std::uint16_t half_of(float power) {
  return std::uint16_t((std::ilogb(power) + 15) << 10);
}

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> out(bytes.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    base::bf16 value;
    std::memcpy(&value, bytes.data() + 2 * i, 2);
    out[i] = base::to_float(value);
  }
  return out;
}

/// Blocks of 32, each of which `encode` makes of its numbers and the largest of them.
template <class Block, class F>
std::string blocks(const std::string& bytes, const F& encode) {
  const std::vector<float> values = floats(bytes);
  std::string out;
  for (std::size_t at = 0; at < values.size(); at += gpu::gguf::small) {
    const float* first = values.data() + at;
    float most = 0;
    for (int i = 0; i < gpu::gguf::small; ++i)
      most = std::max(most, std::abs(first[i]));
    const Block block = encode(first, most);
    out.append(reinterpret_cast<const char*>(&block), sizeof block);
  }
  return out;
}

std::string q8_0(const std::string& bytes) {
  return blocks<gpu::gguf::Q8_0>(bytes, [](const float* values, float most) {
    const float scale = power_above(most / 127);
    gpu::gguf::Q8_0 out{half_of(scale), {}};
    for (int i = 0; i < gpu::gguf::small; ++i)
      out.codes[i] = std::int8_t(std::lround(values[i] / scale));
    return out;
  });
}

std::string q4_0(const std::string& bytes) {
  return blocks<gpu::gguf::Q4_0>(bytes, [](const float* values, float most) {
    const float scale = power_above(most / 8);
    gpu::gguf::Q4_0 out{half_of(scale), {}};
    const auto code = [&](int i) {
      return std::uint8_t(std::clamp(std::lround(values[i] / scale) + 8, 0l, 15l));
    };
    for (int i = 0; i < gpu::gguf::small / 2; ++i)
      out.codes[i] = std::uint8_t(code(i) | code(i + gpu::gguf::small / 2) << 4);
    return out;
  });
}

void put_tokenizer(GgufWriter& file, std::size_t vocabulary) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  while (tokens.size() < vocabulary) {
    tokens.push_back(fmt::format("word{}", tokens.size()));
    types.push_back(1);
  }
  file.put("tokenizer.ggml.model", std::string("llama"))
      .put("tokenizer.ggml.tokens", tokens)
      .put("tokenizer.ggml.scores", std::vector<float>(vocabulary, 0))
      .put("tokenizer.ggml.token_type", types);
}

} // namespace

std::string quantized_demo(const testing::TemporaryFolder& folder, const std::string& role) {
  auto file = to_gguf(resolve_model_path("demo", role).value(), "llama");
  for (const std::string& name : file.names()) {
    const auto has = [&](const char* part) { return name.find(part) != name.npos; };
    if (has("norm"))
      continue;
    if (has("attn_q") || has("attn_k") || has("ffn"))
      file.store_as(name, std::uint32_t(gpu::GgufFormat::q4_0), q4_0);
    else
      file.store_as(name, std::uint32_t(gpu::GgufFormat::q8_0), q8_0);
  }
  put_tokenizer(file, 4096);
  return folder.write("demo.gguf", file.bytes());
}

} // namespace paceline::models::test
