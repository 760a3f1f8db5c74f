// Promises 1 and 2 with weights that are blocks of a GGUF file: the demo target, on this machine's
// cores.
#include "base/bf16.hpp"
#include "gpu/gguf_blocks.hpp"
#include "tests/engine/draft_checks.hpp"
#include "tests/models/gguf_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

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

/// Bytes are its tokens: any text can be told to it.
void put_tokenizer(models::test::GgufWriter& file, std::size_t vocabulary) {
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

/// Queries and keys have other blocks than values, with which they are one weight.
std::string quantized_demo(const TemporaryFolder& folder) {
  auto file = models::test::to_gguf(demo("target"), "llama");
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

EngineOptions options_for(const std::string& gguf) {
  EngineOptions options;
  options.target = gguf;
  options.drafters = {"self:mxfp4"};
  options.threads = 2;
  return options;
}

std::vector<Request> short_requests() {
  return {repeatable("import os", 20), repeatable("class Stack:", 20, 7)};
}

} // namespace

TEST_CASE("with a GGUF's blocks: the same tokens in every mode, chunk, page, batch and team") {
  const TemporaryFolder folder;
  const std::string gguf = quantized_demo(folder);
  EngineOptions options = options_for(gguf);
  options.threads = 1;
  options.max_num_seqs = 1;
  const auto expected = plain_answers_of(options, short_requests());
  SpeculationStats stats;
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    options = options_for(gguf);
    options.speculation = mode;
    options.window = mode == SpeculationMode::sync ? 6 : 3;
    options.prefill_chunk = mode == SpeculationMode::sync ? 5 : 512;
    options.page_tokens = mode == SpeculationMode::sync ? 2 : 16;
    CHECK(answers_of(options, short_requests(), &stats) == expected);
  }
  CHECK(stats.accepted > 0); // Speculation was at work.
}

TEST_CASE("a GGUF's blocks take the memory that they take in their file") {
  const TemporaryFolder folder;
  EngineOptions options = options_for(quantized_demo(folder));
  options.drafters.clear();
  const ModelInfo blocks = open_engine(options).target();
  CHECK(blocks.dtype == "bf16");
  CHECK(blocks.weights == "q4_0+q8_0");
  CHECK(blocks.head_weights == "q8_0");
  options.target = demo("target");
  CHECK(blocks.weight_bytes < open_engine(options).target().weight_bytes * 0.5);
}
