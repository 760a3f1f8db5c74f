// gpt-oss: its defaults, experts in blocks of MXFP4 as its files have them, and what is wrong with
// such files. Its logits are compared in reference_test.cpp.
#include "base/bf16.hpp"
#include "gpu/mx.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/gguf_numbers.hpp"
#include "models/checkpoint/widen.hpp"
#include "models/quantize.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/models/written_gguf.hpp"
#include "tests/support/says.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

/// Sizes of the model in whole blocks.
namespace oss {
constexpr int hidden = 64;
constexpr int ffn = 128;
constexpr int experts = 6;
constexpr int block = gpu::mx_block;
} // namespace oss

/// The reference case, with layers of whole blocks.
json::object in_whole_blocks() {
  json::object entry = test::reference_case("gpt-oss");
  entry["shards"] = 1;
  entry["config"].as_object()["hidden_size"] = oss::hidden;
  entry["config"].as_object()["intermediate_size"] = oss::ffn;
  for (json::value& tensor : entry["tensors"].as_array()) {
    const bool expert = tensor.at(0).as_string().find(".experts.") != std::string::npos;
    for (json::value& size : tensor.at(1).as_array())
      size = size == 48              ? oss::hidden
             : expert && size == 80  ? oss::ffn
             : expert && size == 160 ? 2 * oss::ffn
                                     : size.as_int64();
  }
  return entry;
}

/// The same model with blocks for experts, and with the numbers that they mean.
struct OssTwins {
  test::TemporaryFolder numbers;
  test::TemporaryFolder folder; ///< Has blocks.
  json::object config;
  test::WeightsFile blocks;

  OssTwins() : blocks(written(numbers)) {
    const json::object entry = in_whole_blocks();
    config = entry.at("config").as_object();
    test::WeightsFile plain(numbers.path());
    for (int layer = 0; layer < 3; ++layer) {
      const std::string before = "model.layers." + std::to_string(layer) + ".mlp.experts.";
      put(plain, before + "gate_up_proj", 2 * oss::ffn, oss::hidden);
      put(plain, before + "down_proj", oss::hidden, oss::ffn);
    }
    numbers.write("model.safetensors", plain.bytes());
    config["quantization_config"] = {{"quant_method", "mxfp4"},
                                     {"modules_to_not_convert", {"model.layers.*.self_attn"}}};
  }

  std::shared_ptr<const CheckpointSource> write() const {
    folder.write("model.safetensors", blocks.bytes());
    folder.write("config.json", json::serialize(config));
    return test::source_of(folder.path());
  }
  Result<std::shared_ptr<const Model>> load(const LoadOptions& options = {}) const {
    write();
    return test::load(folder.path(), test::device(), options);
  }

private:
  static const std::string& written(const test::TemporaryFolder& folder) {
    test::write_checkpoint(folder, in_whole_blocks(), gpu::DType::bf16);
    return folder.path();
  }

  /// Random codes, two in a byte from the lowest bits on, with exponents a little below 1.
  void put(test::WeightsFile& plain, const std::string& name, int outputs, int inputs) {
    const int in_row = inputs / oss::block;
    std::string codes;
    std::string scales;
    std::string turned(std::size_t(oss::experts * inputs * outputs * 2), '\0');
    for (int e = 0; e < oss::experts; ++e)
      for (int o = 0; o < outputs; ++o)
        for (int b = 0; b < in_row; ++b) {
          gpu::MxBlock each;
          each.scale = std::uint8_t(122 + random_() % 3);
          for (std::uint8_t& code : each.codes)
            code = std::uint8_t(random_() % 16);
          for (int i = 0; i < oss::block; i += 2)
            codes += char(each.codes[std::size_t(i)] | each.codes[std::size_t(i + 1)] << 4);
          scales += char(each.scale);
          float values[oss::block];
          gpu::decode_block(WeightFormat::mxfp4, each, values);
          for (int i = 0; i < oss::block; ++i) {
            const int at = (e * inputs + b * oss::block + i) * outputs + o;
            const std::uint16_t bits = base::to_bf16(values[i]).bits;
            turned[std::size_t(2 * at)] = char(bits & 0xFF);
            turned[std::size_t(2 * at + 1)] = char(bits >> 8);
          }
        }
    plain.put(name, "BF16", {oss::experts, inputs, outputs}, turned);
    blocks.remove(name);
    blocks.put(name + "_blocks", "U8", {oss::experts, outputs, in_row, oss::block / 2}, codes);
    blocks.put(name + "_scales", "U8", {oss::experts, outputs, in_row}, scales);
  }

  std::mt19937 random_{7};
};

/// All numbers of a matrix of numbers, or of blocks.
std::vector<float> numbers_in(const gpu::HostMatrix& matrix) {
  std::vector<float> out;
  for (int r = 0; r < matrix.rows; ++r)
    for (int c = 0; c < matrix.cols; c += matrix.block_scales ? oss::block : 1) {
      float values[oss::block];
      if (matrix.block_scales)
        gpu::decode_block(WeightFormat::mxfp4, gpu::block_of(matrix, r, c), values);
      else
        values[0] =
            base::to_float(static_cast<const base::bf16*>(matrix.data)[r * matrix.cols + c]);
      out.insert(out.end(), values, values + (matrix.block_scales ? oss::block : 1));
    }
  return out;
}

constexpr const char* in_block_1 = "model.layers.1.mlp.experts.";

} // namespace

TEST_CASE("gpt-oss's experts in blocks are the numbers that they mean, output by output") {
  const OssTwins twins;
  const auto coded = twins.write();
  const auto plain = test::source_of(twins.numbers.path());
  const auto stored = coded->tensors(coded->config().value()).value();
  const auto expected = plain->tensors(plain->config().value()).value();
  for (const int expert : {0, 2, oss::experts - 1})
    for (const TensorRole role : {TensorRole::gate, TensorRole::up, TensorRole::down}) {
      CAPTURE(expert);
      const bool down = role == TensorRole::down;
      const TensorKey key{role, 1, expert};
      const auto blocks =
          stored->matrix(key, down ? oss::hidden : oss::ffn, down ? oss::ffn : oss::hidden);
      REQUIRE_MESSAGE(blocks, blocks.error().text());
      CHECK(blocks->format() == WeightFormat::mxfp4);
      const auto numbers =
          expected->matrix(key, down ? oss::hidden : oss::ffn, down ? oss::ffn : oss::hidden);
      CHECK(numbers_in(*blocks) == numbers_in(numbers.value()));
      stored->release(key);
      expected->release(key);
    }
}

TEST_CASE("an expert's matrix stays until its own stack is released") {
  const OssTwins twins;
  const auto source = twins.write();
  const auto stored = source->tensors(source->config().value()).value();
  const TensorKey down{TensorRole::down, 1, 0};
  const auto gate = stored->matrix({TensorRole::gate, 1, 0}, oss::ffn, oss::hidden).value();
  const auto before = numbers_in(gate);
  REQUIRE(stored->matrix(down, oss::hidden, oss::ffn));
  stored->release(down);
  CHECK(numbers_in(gate) == before);
}

TEST_CASE("a gpt-oss of blocks computes what its numbers compute, and is as small as its file") {
  const OssTwins twins;
  const auto model = twins.load();
  REQUIRE_MESSAGE(model, model.error().text());
  const auto plain = test::load(twins.numbers.path(), test::device(), {}).value();
  const auto tokens = test::some_tokens(30, 160);
  CHECK(test::same_bits(test::logits_of(*model, tokens), test::logits_of(plain, tokens)));
  CHECK((*model)->info().dtype == "bf16");
  CHECK((*model)->info().weights == "bf16+mxfp4");
  CHECK((*model)->info().parameters == plain->info().parameters);
  CHECK((*model)->info().weight_bytes < plain->info().weight_bytes * 2 / 3);
  const auto source = twins.write();
  int stacks = 0;
  for (const auto& stored : source->tensors(source->config().value()).value()->tensors()) {
    const bool both = stored.name.ends_with("gate_up_proj_blocks");
    if (!both && !stored.name.ends_with("down_proj_blocks"))
      continue;
    ++stacks;
    CHECK(stored.format == "mxfp4");
    CHECK(stored.elements == std::uint64_t(oss::experts * oss::ffn * oss::hidden) * (both ? 2 : 1));
  }
  CHECK(stacks == 6);
}

TEST_CASE("gpt-oss's blocks stay in shards and beside weights that are quantized here") {
  const OssTwins twins;
  const auto source = twins.write();
  const auto tokens = test::some_tokens(30, 160);
  const test::Rows whole = test::logits_of(twins.load().value(), tokens);
  const auto shards = load_model(*source, {test::group(2)}, {});
  REQUIRE_MESSAGE(shards, shards.error().text());
  CHECK(test::worst_error(test::in_pieces(*shards, tokens, 7, true), whole) < 2e-2);
  CHECK_FALSE(load_model(*source, {test::group(4)}, {})); // A head's 16 inputs are half a block.
  LoadOptions options;
  options.blocks = gpu::Quantization{WeightFormat::mxfp4};
  const auto all = twins.load(options);
  REQUIRE_MESSAGE(all, all.error().text());
  CHECK((*all)->info().weights == "mxfp4");
  options.blocks = gpu::Quantization{WeightFormat::mxfp8};
  const auto refused = twins.load(options);
  REQUIRE(!refused);
  CHECK(paceline::testing::says(refused.error(), "is mxfp4 already"));
  options.blocks = gpu::Quantization{WeightFormat::mxfp4};
  CHECK(test::load(twins.numbers.path(), test::device(), options));
  const auto blocks = quantize_checkpoint(twins.folder.path(), twins.folder.file("out"), {});
  REQUIRE(!blocks);
  CHECK(paceline::testing::says(blocks.error(), "is quantized already (by mxfp4)"));
  const auto numbers = quantize_checkpoint(twins.numbers.path(), twins.numbers.file("out"), {});
  REQUIRE(!numbers);
  CHECK(paceline::testing::says(numbers.error(), "has the matrices of all experts"));
}

TEST_CASE("what is wrong with a gpt-oss's tensors is said with their names") {
  const std::string down = std::string(in_block_1) + "down_proj";
  const std::string both = std::string(in_block_1) + "gate_up_proj";
  using Change = std::function<void(test::WeightsFile&)>;
  for (const auto& [change, said] : std::vector<std::pair<Change, std::string>>{
           {[&](auto& w) { w.remove(down + "_scales"); }, "down_proj_scales is missing"},
           {[&](auto& w) { w.remove(down + "_bias"); }, "down_proj_bias is missing"},
           {[&](auto& w) {
              w.put(down + "_scales", "U8", {oss::experts, oss::hidden, 2},
                    std::string(std::size_t(oss::experts * oss::hidden * 2), '{'));
            },
            "down_proj_scales is [6, 64, 2], where config.json wants [6, 64, 4]"},
           {[&](auto& w) {
              const std::string bytes(w.tensor(both + "_blocks"));
              w.put(both + "_blocks", "I8", w.shape(both + "_blocks"), bytes);
            },
            "gate_up_proj_blocks is of I8, where bytes belong"},
           {[&](auto& w) { w.at(both + "_scales")[5] = '\xFF'; },
            "gate_up_proj_scales is NaN in expert 0"},
           {[&](auto& w) {
              const std::string bytes(w.tensor(both + "_blocks"));
              w.put(both + "_blocks", "U8", {oss::experts, 2 * oss::ffn, 4, 8}, bytes);
            },
            "gate_up_proj_blocks is [6, 256, 4, 8], where config.json wants [6, 256, 2, 16]"},
           {[&](auto& w) {
              w.put("model.layers.1.self_attn.sinks", "BF16", {3}, std::string(6, '\0'));
            },
            "sinks is [3], where config.json wants [4]"},
           {[&](auto& w) { w.remove("model.layers.1.mlp.router.bias"); },
            "mlp.router.bias is missing"}}) {
    OssTwins twins;
    change(twins.blocks);
    const auto refused = twins.load();
    CAPTURE(said);
    REQUIRE(!refused);
    CHECK(paceline::testing::says(refused.error(), said));
  }
}

TEST_CASE("a gpt-oss's sinks, biases and bounds count, and it has its defaults") {
  const auto tokens = test::some_tokens(30, 160);
  const test::TemporaryFolder folder;
  json::object entry = test::reference_case("gpt-oss");
  entry["shards"] = 1;
  test::write_checkpoint(folder, entry, gpu::DType::bf16);
  const auto logits = [&] {
    return test::logits_of(test::load(folder.path(), test::device(), {}).value(), tokens);
  };
  const test::Rows expected = logits();
  for (const char* name :
       {"self_attn.sinks", "mlp.router.bias", "mlp.experts.gate_up_proj_bias",
        "mlp.experts.down_proj_bias", "self_attn.o_proj.bias", "self_attn.v_proj.bias"}) {
    CAPTURE(std::string(name));
    test::write_checkpoint(folder, entry, gpu::DType::bf16);
    test::WeightsFile weights(folder.path());
    const std::string whole = "model.layers.2." + std::string(name);
    std::fill_n(weights.at(whole), weights.tensor(whole).size(), '\0');
    folder.write("model.safetensors", weights.bytes());
    CHECK(test::worst_error(logits(), expected) > 1e-3);
  }
  json::object config = entry.at("config").as_object();
  const auto read = [&] {
    folder.write("config.json", json::serialize(config));
    return FolderSource(folder.path()).config().value();
  };
  for (const char* key : {"swiglu_limit", "sliding_window", "rope_theta", "rope_scaling",
                          "rms_norm_eps", "attention_bias"})
    config.erase(key);
  config["head_dim"] = nullptr;
  const ModelConfig defaults = read();
  CHECK(defaults.gating == gpu::Gating{gpu::Activation::clamped_silu, 1.702f, 7});
  CHECK(defaults.head_dim == 64);
  CHECK(defaults.qkv_bias);
  CHECK(defaults.attention_out_bias);
  CHECK(defaults.mixers.at(0).window == 128);
  CHECK(defaults.mixers.at(1).window == 0);
  CHECK(defaults.mixers.at(2).window == 128);
  config["rope_theta"] = 150000;
  config["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", 32},
                            {"truncate", false},
                            {"original_max_position_embeddings", 4096}};
  CHECK(read().ropes.at(0).frequencies == defaults.ropes.at(0).frequencies);
  CHECK(read().ropes.at(0).factor == defaults.ropes.at(0).factor);
  CHECK(defaults.ropes.at(0).factor == doctest::Approx(0.1 * std::log(32) + 1));
  config.at("rope_scaling").as_object().erase("truncate");
  CHECK(read().ropes.at(0).frequencies != defaults.ropes.at(0).frequencies);
}

TEST_CASE("blocks of experts become a GGUF's, with the same numbers") {
  OssTwins twins;
  twins.config["swiglu_limit"] = 7.0; // Files have no word for another.
  twins.write();
  json::object plain = twins.config;
  plain.erase("quantization_config");
  twins.numbers.write("config.json", json::serialize(plain));
  test::write_texts(twins.folder);
  const test::TemporaryFolder out;
  test::written(twins.folder.path(), out.file("m.gguf"), test::as(WeightFormat::q4_k));
  const auto files = test::files_at(out.file("m.gguf"));
  const auto source = test::source_of(twins.numbers.path());
  const auto tensors = source->tensors(source->config().value()).value();
  for (const auto& [role, name, rows, cols] :
       {std::tuple(TensorRole::gate, "blk.1.ffn_gate_exps.weight", oss::ffn, oss::hidden),
        {TensorRole::up, "blk.1.ffn_up_exps.weight", oss::ffn, oss::hidden},
        {TensorRole::down, "blk.1.ffn_down_exps.weight", oss::hidden, oss::ffn}}) {
    CHECK(test::type_in(*files, name) == "mxfp4");
    std::vector<float> expected;
    for (int expert = 0; expert < oss::experts; ++expert) {
      const gpu::HostMatrix matrix = tensors->matrix({role, 1, expert}, rows, cols).value();
      const auto values = widen(matrix.dtype, matrix.data, std::size_t(rows * cols));
      expected.insert(expected.end(), values.begin(), values.end());
    }
    CHECK(values_of(*files->tensor(name)) == expected);
  }
}
