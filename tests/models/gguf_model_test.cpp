// A model in a GGUF file computes what the same weights in a folder compute, for every architecture
// and every type of tensor.
#include "base/bf16.hpp"
#include "gpu/gguf_blocks.hpp"
#include "models/sources.hpp"
#include "tests/models/gguf_cases.hpp"
#include "tests/models/gguf_checkpoint.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/models/written_gguf.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <doctest/doctest.h>
#include <numbers>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using test::Rows;

constexpr gpu::DType plain_types[] = {gpu::DType::f32, gpu::DType::f16, gpu::DType::bf16};

using test::GgufCase;
using test::relative_error;
using test::write_case;

std::shared_ptr<const Model> opened(const std::string& location, const LoadOptions& options = {}) {
  auto model = test::load(location, test::device(), options);
  REQUIRE_MESSAGE(model, model.error().text());
  return *model;
}

Rows logits(const std::shared_ptr<const Model>& model) {
  return test::logits_of(model, test::some_tokens(40, 160));
}

/// A half that is neither special nor so large that a model of such weights would be chaotic: for
/// numbers of `bits` bits.
std::uint16_t small_half(std::uint64_t& state, int bits) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return std::uint16_t((11 - bits) * 0x400 + int(state >> 54));
}

/// A llama of such matrices, as a GGUF, and of the numbers that they mean, as a folder.
struct Twins {
  test::TemporaryFolder folder;
  testing::GgufWriter file;
  std::string gguf;

  /// values: of the matrices of attention's values.
  explicit Twins(gpu::GgufFormat format) : Twins(format, format) {}
  /// experts: if there are any, of a Mixtral in the place of a llama; their gates are of `values`.
  Twins(gpu::GgufFormat format, gpu::GgufFormat values, int experts = 0) {
    json::object config{{"architectures", {"LlamaForCausalLM"}},
                        {"hidden_size", 256},
                        {"intermediate_size", 256},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"max_position_embeddings", 64},
                        {"rms_norm_eps", 1e-5},
                        {"vocab_size", 160},
                        {"tie_word_embeddings", true}};
    if (experts > 0) {
      config["architectures"] = {"MixtralForCausalLM"};
      config["num_local_experts"] = experts;
      config["num_experts_per_tok"] = 2;
      config["rope_theta"] = 10000;
    }
    file = test::gguf_metadata("llama", config);
    folder.write("model.safetensors", test::file_of("{}", ""));
    test::WeightsFile plain(folder.path());
    add(plain, format, "token_embd", "model.embed_tokens", 160, 0);
    add_norm(plain, "output_norm", "model.norm");
    for (int i = 0; i < 2; ++i) {
      const std::string block = "blk." + std::to_string(i) + ".";
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      add(plain, format, block + "attn_q", layer + "self_attn.q_proj", 256, 4);
      add(plain, format, block + "attn_k", layer + "self_attn.k_proj", 128, 2);
      add(plain, values, block + "attn_v", layer + "self_attn.v_proj", 128, 0);
      add(plain, format, block + "attn_output", layer + "self_attn.o_proj", 256, 0);
      if (experts > 0) {
        add_experts(plain, values, experts, block + "ffn_gate_exps", layer, "w1");
        add_experts(plain, format, experts, block + "ffn_up_exps", layer, "w3");
        add_experts(plain, format, experts, block + "ffn_down_exps", layer, "w2");
        add_router(plain, experts, block + "ffn_gate_inp", layer + "block_sparse_moe.gate");
      } else {
        add(plain, format, block + "ffn_gate", layer + "mlp.gate_proj", 256, 0);
        add(plain, format, block + "ffn_up", layer + "mlp.up_proj", 256, 0);
        add(plain, format, block + "ffn_down", layer + "mlp.down_proj", 256, 0);
      }
      add_norm(plain, block + "attn_norm", layer + "input_layernorm");
      add_norm(plain, block + "ffn_norm", layer + "post_attention_layernorm");
    }
    gguf = folder.write("gguf/model.gguf", file.bytes());
    folder.write("config.json", json::serialize(config));
    folder.write("model.safetensors", plain.bytes());
  }

private:
  void add_norm(test::WeightsFile& plain, const std::string& in_gguf, const std::string& name) {
    std::vector<float> values(256);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.5f + float(i % 7) / 8;
    file.tensor(in_gguf + ".weight", {256}, values);
    plain.put(name + ".weight", "F32", {256},
              {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  void add_router(test::WeightsFile& plain, int experts, const std::string& in_gguf,
                  const std::string& name) {
    std::vector<float> values(std::size_t(experts) * 256);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (float(i * 7 % 31) - 15) / 128;
    file.tensor(in_gguf + ".weight", {std::uint64_t(experts), 256}, values);
    plain.put(name + ".weight", "F32", {experts, 256},
              {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  void add_experts(test::WeightsFile& plain, gpu::GgufFormat format, int experts,
                   const std::string& in_gguf, const std::string& layer, const std::string& part) {
    std::string stored;
    for (int e = 0; e < experts; ++e)
      stored +=
          blocks(plain, format,
                 layer + "block_sparse_moe.experts." + std::to_string(e) + "." + part, 256, 0);
    file.tensor(in_gguf + ".weight", std::uint32_t(format), {std::uint64_t(experts), 256, 256},
                stored);
  }

  void add(test::WeightsFile& plain, gpu::GgufFormat format, const std::string& in_gguf,
           const std::string& name, int rows, int heads) {
    const std::string stored = blocks(plain, format, name, rows, heads);
    file.tensor(in_gguf + ".weight", std::uint32_t(format), {std::uint64_t(rows), 256}, stored);
  }

  /// Makes up a matrix's blocks, and gives the folder their numbers. heads: of rows that lie in
  /// pairs in the file; 0: they lie as they are.
  std::string blocks(test::WeightsFile& plain, gpu::GgufFormat format, const std::string& name,
                     int rows, int heads) {
    const auto elements = std::size_t(gpu::block_elements(format));
    const std::size_t bytes = gpu::block_bytes(format);
    const std::size_t in_row = 256 / elements;
    std::string stored;
    std::vector<float> values(std::size_t(rows) * 256);
    for (std::size_t i = 0; i < std::size_t(rows) * in_row; ++i) {
      const std::string block = some_block(format, bytes);
      const auto row = int(i / in_row);
      gpu::decode_block(format, reinterpret_cast<const std::byte*>(block.data()),
                        values.data() + std::size_t(place(row, rows, heads)) * 256 +
                            i % in_row * elements);
      stored += block;
    }
    plain.put(name + ".weight", "F32", {rows, 256},
              {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    return stored;
  }

  /// Row 2i + h of a head is row i of its half h.
  static int place(int row, int rows, int heads) {
    if (heads == 0)
      return row;
    const int head = rows / heads;
    return row / head * head + row % head % 2 * (head / 2) + row % head / 2;
  }

  std::string some_block(gpu::GgufFormat format, std::size_t bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes; ++i) {
      state_ = state_ * 6364136223846793005 + 1442695040888963407;
      out += char(state_ >> 56);
    }
    using enum gpu::GgufFormat;
    const auto put_half = [&](std::size_t at, int bits = 4) {
      const std::uint16_t half = small_half(state_, bits);
      out.replace(at, 2, reinterpret_cast<const char*>(&half), 2);
    };
    switch (format) {
    case mxfp4: out[0] = char(120 + out[0] % 4); break;
    case nvfp4:
      for (std::size_t i = 0; i < 4; ++i)
        out[i] = char(out[i] & 0x1F);
      break;
    case q2_k: put_half(80), put_half(82); break;
    case q3_k: put_half(108, 7); break;
    case iq4_xs: put_half(0, 10); break;
    case q8_0:
    case iq4_nl: put_half(0, 7); break;
    case q6_k: put_half(208, 10); break;
    case q4_1:
    case q5_1:
    case q4_k:
    case q5_k: put_half(2); [[fallthrough]];
    default: put_half(0);
    }
    return out;
  }

  std::uint64_t state_ = 1;
};

} // namespace

TEST_CASE("every architecture in a GGUF computes what its folder computes, bit for bit") {
  for (const GgufCase& own : test::gguf_cases())
    for (const gpu::DType dtype : plain_types) {
      CAPTURE(own.name);
      CAPTURE(gpu::to_string(dtype));
      const test::TemporaryFolder folder;
      write_case(folder, own, dtype);
      const std::string file =
          folder.write("m.gguf", test::to_gguf(folder.path(), own.architecture).bytes());
      const auto one = opened(folder.path());
      const auto other = opened(file);
      CHECK(other->info().dtype == gpu::to_string(dtype));
      CHECK(other->info().parameters == one->info().parameters);
      CHECK(test::source_of(file)->config()->context ==
            test::source_of(folder.path())->config()->context);
      if (own.reordered)
        CHECK(relative_error(logits(other), logits(one)) <
              (dtype == gpu::DType::f32 ? 1e-5 : 0.02));
      else
        CHECK(test::same_bits(logits(other), logits(one)));
    }
}

TEST_CASE("layers of a GGUF that draft are left out, and are counted among its blocks") {
  const GgufCase own{"GLM-4.5", "glm4moe"};
  const test::TemporaryFolder folder;
  write_case(folder, own, gpu::DType::bf16);
  testing::GgufWriter file = test::to_gguf(folder.path(), own.architecture);
  const auto plain = opened(folder.write("plain.gguf", file.bytes()));
  file.put("glm4moe.block_count", std::uint32_t(4))
      .put("glm4moe.nextn_predict_layers", std::uint32_t(1))
      .tensor("blk.3.nextn.enorm.weight", {48}, std::vector<float>(48, 1));
  const auto drafts = opened(folder.write("drafts.gguf", file.bytes()));
  CHECK(drafts->info().layers == 3);
  CHECK(test::same_bits(logits(drafts), logits(plain)));
}

TEST_CASE("queries, keys and values in one tensor are what they are in three, bit for bit") {
  for (const GgufCase& own :
       {GgufCase{"Llama with biases, one head of keys for each query", "llama"},
        GgufCase{"SmolLM 2", "llama"}, GgufCase{"Qwen 2", "qwen2"}}) {
    CAPTURE(own.name);
    const test::TemporaryFolder folder;
    write_case(folder, own, gpu::DType::bf16);
    testing::GgufWriter file = test::to_gguf(folder.path(), own.architecture);
    const std::string apart = folder.write("apart.gguf", file.bytes());
    for (const std::string& name : file.names())
      if (const auto at = name.find("attn_q."); at != name.npos) {
        const std::string block = name.substr(0, at);
        const std::string kind = name.substr(at + 7);
        file.join(block + "attn_qkv." + kind,
                  {name, block + "attn_k." + kind, block + "attn_v." + kind});
      }
    CHECK(test::same_bits(logits(opened(folder.write("fused.gguf", file.bytes()))),
                          logits(opened(apart))));
  }
}

TEST_CASE("a norm of one group may be a vector, as llama.cpp's tools write it") {
  const test::TemporaryFolder folder;
  write_case(folder, {"Granite 4", "granitehybrid"}, gpu::DType::f32);
  testing::GgufWriter file = test::to_gguf(folder.path(), "granitehybrid");
  const std::string rows = folder.write("rows.gguf", file.bytes());
  for (const std::string& name : file.names())
    if (name.ends_with("ssm_norm.weight")) {
      std::string numbers;
      file.store_as(name, 0, [&](const std::string& stored) { return numbers = stored; });
      file.tensor(name, 0, {numbers.size() / sizeof(float)}, numbers);
    }
  CHECK(test::same_bits(logits(opened(folder.write("flat.gguf", file.bytes()))),
                        logits(opened(rows))));
}

TEST_CASE("every type of blocks computes what its numbers compute, in f32 bit for bit") {
  for (const gpu::GgufFormat format : gpu::gguf_formats) {
    CAPTURE(std::string(gpu::to_string(format)));
    const Twins twins(format);
    LoadOptions options;
    options.dtype = NumberFormat::f32;
    const Rows expected = logits(opened(twins.folder.path(), options));
    CHECK(std::isfinite(expected.back().back()));
    CHECK(test::same_bits(logits(opened(twins.gguf, options)), expected));
    // Weights stay blocks; rows are rounded to bf16, and numbers are not.
    options.dtype = NumberFormat::bf16;
    const auto kept = opened(twins.gguf, options);
    const auto narrow = opened(twins.folder.path(), options);
    const bool decoded = !gpu::weight_format(format);
    CHECK(kept->info().weights == (decoded ? "bf16" : gpu::to_string(format)));
    CHECK(test::same_bits(logits(kept), logits(narrow)) == decoded);
    CHECK(relative_error(logits(kept), expected) < 0.02);
    CHECK((decoded || kept->info().weight_bytes < narrow->info().weight_bytes * 2 / 3));
    CHECK(opened(twins.gguf)->info().dtype == "bf16");
  }
}

TEST_CASE("a line says which blocks do not stay as they are, and what becomes of them") {
  const Twins twins(gpu::GgufFormat::q4_k);
  std::string said;
  LoadOptions options;
  options.log = base::Log([&](LogLevel, const std::string& line) { said += line + "\n"; });
  opened(twins.gguf, options);
  CHECK(said.empty());
  options.dtype = NumberFormat::f32;
  opened(twins.gguf, options);
  CHECK(said.find("MB of blocks are decoded to f32, and take ") != std::string::npos);
  said.clear();
  options.dtype = NumberFormat::automatic;
  options.blocks = {WeightFormat::mxfp4, ScaleChoice::search};
  opened(twins.gguf, options);
  CHECK(said.find("MB of blocks are rounded once more, to mxfp4") != std::string::npos);
  CHECK(said.find("decoded") == std::string::npos);
}

TEST_CASE("matrices of unlike blocks that are read together are multiplied each as it is") {
  const Twins twins(gpu::GgufFormat::q4_k, gpu::GgufFormat::q6_k);
  LoadOptions options;
  options.dtype = NumberFormat::f32;
  const Rows expected = logits(opened(twins.folder.path(), options));
  const auto kept = opened(twins.gguf);
  CHECK(kept->info().weights == "q4_k+q6_k");
  CHECK(relative_error(logits(kept), expected) < 0.02);
}

TEST_CASE("experts in blocks, one tensor for all of them, compute what their numbers compute") {
  using enum gpu::GgufFormat;
  for (const auto& [format, gates] :
       {std::pair(q4_k, q4_k), {q8_0, q8_0}, {mxfp4, mxfp4}, {nvfp4, nvfp4}, {q4_k, q6_k}}) {
    CAPTURE(std::string(gpu::to_string(format)));
    CAPTURE(std::string(gpu::to_string(gates)));
    const Twins twins(format, gates, 5);
    LoadOptions options;
    options.dtype = NumberFormat::f32;
    const Rows expected = logits(opened(twins.folder.path(), options));
    CHECK(test::same_bits(logits(opened(twins.gguf, options)), expected));
    const auto kept = opened(twins.gguf);
    CHECK(kept->info().dtype == "bf16");
    // Some rows go to another expert of nearly the same score, where rows are rounded.
    CHECK(relative_error(logits(kept), expected) < 0.2);
  }
}

TEST_CASE("LongRoPE's factors, which are tensors in a GGUF, turn as those of config.json do") {
  const json::array near{1.0, 1.125, 1.25, 1.5, 2.0, 4.0};
  GgufCase own{"Phi 3", "phi3"};
  own.change = {
      {"original_max_position_embeddings", 48},
      {"rope_scaling",
       {{"type", "longrope"}, {"short_factor", near}, {"long_factor", json::array(6, 9)}}}};
  const test::TemporaryFolder folder;
  write_case(folder, own, gpu::DType::bf16);
  testing::GgufWriter file = test::to_gguf(folder.path(), "phi3");
  const std::string plain = folder.write("plain.gguf", file.bytes());
  std::vector<float> factors;
  for (const json::value& factor : near)
    factors.push_back(factor.to_number<float>());
  file.put("phi3.rope.scaling.original_context_length", std::uint32_t(48))
      .tensor("rope_factors_short.weight", {6}, factors)
      .tensor("rope_factors_long.weight", {6}, std::vector<float>(6, 9));
  const std::string gguf = folder.write("m.gguf", file.bytes());
  CHECK(test::source_of(gguf)->config()->context == 48);
  const Rows expected = logits(opened(folder.path()));
  CHECK(test::same_bits(logits(opened(gguf)), expected));
  CHECK_FALSE(test::same_bits(logits(opened(plain)), expected));
}

TEST_CASE("divisors of frequencies turn a llama as Llama 3 turns") {
  const GgufCase own{"Llama 3", "llama"};
  const test::TemporaryFolder folder;
  write_case(folder, own, gpu::DType::f32);
  testing::GgufWriter file = test::to_gguf(folder.path(), "llama");
  std::vector<float>
      divisors; // Of 12 numbers that a head has: factor 8, low 1, high 4, 32 positions.
  for (int i = 0; i < 6; ++i) {
    const double waves = 32 * std::pow(500'000, -2.0 * i / 12) / (2 * std::numbers::pi);
    const double share = std::clamp((waves - 1) / 3, 0.0, 1.0);
    divisors.push_back(float(1 / (share + (1 - share) / 8)));
  }
  const auto plain = opened(folder.write("without.gguf", file.bytes()));
  file.tensor("rope_freqs.weight", {6}, divisors);
  const Rows expected = logits(opened(folder.path()));
  const Rows scaled = logits(opened(folder.write("with.gguf", file.bytes())));
  CHECK(relative_error(scaled, expected) < 1e-4);
  CHECK_FALSE(test::same_bits(logits(plain), scaled));
}

TEST_CASE("a matrix of NVFP4 is multiplied by the number that its tensor has besides") {
  Twins twins(gpu::GgufFormat::nvfp4);
  const auto down = [&] {
    const auto source = test::source_of(twins.gguf);
    const auto tensors = source->tensors(source->config().value()).value();
    const auto matrix = tensors->matrix({TensorRole::down, 1}, 256, 256).value();
    const auto* values = static_cast<const float*>(matrix.data);
    return std::vector<float>(values, values + 256 * 256);
  };
  std::vector<float> expected = down();
  for (float& value : expected)
    value *= 0.375f;
  twins.file.tensor("blk.1.ffn_down.scale", {1}, {0.375f});
  twins.folder.write("gguf/model.gguf", twins.file.bytes());
  CHECK(down() == expected);
}
