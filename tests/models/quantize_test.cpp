// Folders that quantize_checkpoint writes: what they hold, and that they are the model that loading
// the source with the same formats gives.
#include "models/quantize.hpp"

#include "gpu/mx.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/support.hpp"
#include "tests/models/weights_file.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>

using namespace paceline;
using namespace paceline::models;
namespace fs = std::filesystem;
namespace json = boost::json;
using test::WeightsFile;

namespace {

constexpr WeightFormat all_formats[] = {WeightFormat::mxfp8, WeightFormat::mxfp8_e5m2,
                                        WeightFormat::mxfp6, WeightFormat::mxfp6_e3m2,
                                        WeightFormat::mxfp4, WeightFormat::mxint8};
const std::vector<TokenId> sample_tokens{348, 277, 1, 2, 3, 4, 5, 1000, 17, 42};

std::shared_ptr<const Model> loaded(const std::string& folder, const LoadOptions& options = {}) {
  auto model = test::load(folder, test::device(), options);
  REQUIRE_MESSAGE(model, model.error().text());
  return *model;
}

QuantizationReport quantized(const std::string& from, const std::string& to,
                             const QuantizeOptions& options) {
  auto report = quantize_checkpoint(from, to, options);
  REQUIRE_MESSAGE(report, report.error().text());
  return std::move(*report);
}

QuantizeOptions blocks_in(WeightFormat format, ScaleChoice scales = ScaleChoice::search) {
  QuantizeOptions options;
  options.blocks = {format, scales};
  return options;
}

json::object config_of(const std::string& folder) {
  return json::parse(test::read_file(folder + "/config.json")).as_object();
}

/// The same logits and description, but for the name.
void check_same(const Model& a, const Model& b, const std::shared_ptr<const Model>& first,
                const std::shared_ptr<const Model>& second) {
  CHECK(a.info().weights == b.info().weights);
  CHECK(a.info().head_weights == b.info().head_weights);
  CHECK(a.info().dtype == b.info().dtype);
  CHECK(a.info().parameters == b.info().parameters);
  CHECK(a.info().weight_bytes == b.info().weight_bytes);
  CHECK(test::logits_of(first, sample_tokens) == test::logits_of(second, sample_tokens));
}

} // namespace

TEST_CASE("a quantized folder is, bit for bit, the model quantized while it is loaded") {
  const std::string source = test::demo("draft");
  for (const WeightFormat format : all_formats) {
    CAPTURE(std::string(to_string(format)));
    const test::TemporaryFolder folder;
    const std::string to = folder.file("out");
    quantized(source, to, blocks_in(format));
    LoadOptions options;
    options.blocks = {format};
    const auto stored = loaded(to);
    const auto made = loaded(source, options);
    check_same(*stored, *made, stored, made);
  }
}

/// Checks a reference case that is a mixture. plain: patterns of its layers that stay as they are.
void check_mixture(const char* name, const json::array& plain) {
  CAPTURE(std::string(name));
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, test::reference_case(name), gpu::DType::bf16);
  const test::TemporaryFolder out;
  const std::string to = out.file("out");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    folder.write(file, test::read_file(test::demo("draft") + "/" + file));
  quantized(folder.path(), to, blocks_in(WeightFormat::mxfp4));
  LoadOptions options;
  options.blocks = {WeightFormat::mxfp4};
  const auto stored = loaded(to);
  const auto made = loaded(folder.path(), options);
  CHECK(stored->info().weights == "mxfp4");
  CHECK(stored->info().parameters == made->info().parameters);
  const auto tokens = test::some_tokens(40, 160);
  CHECK(test::same_bits(test::logits_of(stored, tokens), test::logits_of(made, tokens)));
  CHECK(config_of(to).at("quantization_config").at("exclude") == plain);
}

TEST_CASE(
    "a mixture's experts are quantized as they are while it is loaded, and its router is not") {
  check_mixture("Mixtral", {"*.block_sparse_moe.gate", "lm_head"});
  check_mixture("Qwen 2 MoE", {"*.mlp.gate", "*.mlp.shared_expert_gate", "lm_head"});
  check_mixture("GLM-4.5", {"*.mlp.gate", "lm_head"});
}

TEST_CASE("scales are chosen as they are while a model is loaded") {
  const std::string source = test::demo("draft");
  std::vector<std::vector<std::vector<float>>> all;
  for (const ScaleChoice scales : {ScaleChoice::floor, ScaleChoice::ceil, ScaleChoice::search}) {
    const test::TemporaryFolder folder;
    quantized(source, folder.file("out"), blocks_in(WeightFormat::mxfp4, scales));
    LoadOptions options;
    options.blocks = {WeightFormat::mxfp4, scales};
    all.push_back(test::logits_of(loaded(folder.file("out")), sample_tokens));
    CHECK(all.back() == test::logits_of(loaded(source, options), sample_tokens));
  }
  CHECK(all[0] != all[1]);
  CHECK(all[1] != all[2]);
}

TEST_CASE("a tied head that is quantized becomes a matrix of its own") {
  const std::string source = test::demo("draft");
  const test::TemporaryFolder folder;
  const std::string to = folder.file("out");
  QuantizeOptions how = blocks_in(WeightFormat::mxfp6);
  how.head = {WeightFormat::mxfp8};
  const auto report = quantized(source, to, how);
  LoadOptions options;
  options.blocks = {WeightFormat::mxfp6};
  options.head = {WeightFormat::mxfp8};
  const auto stored = loaded(to);
  const auto made = loaded(source, options);
  CHECK(stored->info().head_weights == "mxfp8");
  CHECK(stored->info().weight_bytes == made->info().weight_bytes);
  CHECK(test::logits_of(stored, sample_tokens) == test::logits_of(made, sample_tokens));
  CHECK(config_of(to).at("tie_word_embeddings") == false);
  CHECK(std::any_of(report.kinds.begin(), report.kinds.end(), [](const QuantizedKind& kind) {
    return kind.name == "lm_head" && kind.format == WeightFormat::mxfp8;
  }));
}

TEST_CASE("codes, scales and config.json lie as Quark's do") {
  const std::string source = test::demo("draft");
  const WeightsFile original(source);
  const std::string weight = "model.layers.0.mlp.up_proj.weight";
  const auto shape = original.shape(weight);
  for (const auto& [format, dtype, bits] : {std::tuple{WeightFormat::mxfp4, "fp4", 4},
                                            {WeightFormat::mxfp6, "fp6_e2m3", 6},
                                            {WeightFormat::mxfp6_e3m2, "fp6_e3m2", 6}}) {
    CAPTURE(std::string(dtype));
    const test::TemporaryFolder folder;
    quantized(source, folder.file("out"), blocks_in(format));
    const WeightsFile out(folder.file("out"));
    CHECK(out.header.at(weight).at("dtype") == "U8");
    CHECK(out.shape(weight) == std::vector<std::int64_t>{shape[0], shape[1] * bits / 8});
    CHECK(out.header.at(weight + "_scale").at("dtype") == "U8");
    CHECK(out.shape(weight + "_scale") == std::vector<std::int64_t>{shape[0], shape[1] / 32});
    // The first block: bf16 numbers to codes, the first in the lowest bits.
    float values[gpu::mx_block];
    for (std::size_t i = 0; i < gpu::mx_block; ++i) {
      std::uint32_t wide = 0;
      std::memcpy(reinterpret_cast<char*>(&wide) + 2, original.tensor(weight).data() + 2 * i, 2);
      std::memcpy(&values[i], &wide, 4);
    }
    const gpu::MxBlock block = gpu::encode_block(format, ScaleChoice::search, values);
    const std::string_view codes = out.tensor(weight);
    CHECK(std::uint8_t(out.tensor(weight + "_scale")[0]) == block.scale);
    for (int i = 0; i < gpu::mx_block; ++i) {
      const int at = i * bits;
      const int two = std::uint8_t(codes[std::size_t(at / 8)]) |
                      std::uint8_t(codes[std::size_t(at / 8 + 1)]) << 8;
      CHECK((two >> at % 8 & ((1 << bits) - 1)) == block.codes[std::size_t(i)]);
    }
    const auto config = config_of(folder.file("out")).at("quantization_config").as_object();
    CHECK(config.at("quant_method") == "quark");
    const auto& how = config.at("global_quant_config").at("weight").as_object();
    CHECK(how.at("dtype") == dtype);
    CHECK(how.at("qscheme") == "per_group");
    CHECK(how.at("group_size") == 32);
    CHECK(how.at("scale_format") == "e8m0");
    CHECK(config.at("global_quant_config").at("input_tensors").is_null());
    CHECK(config.at("exclude") == json::array{"lm_head"});
  }
}

TEST_CASE("what belongs to a model goes along, and nothing else") {
  const test::TemporaryFolder source;
  test::link_all(test::demo("draft"), source);
  source.write("chat_template.jinja", "{{ messages }}");
  source.write("pytorch_model.bin", "x");
  source.write(".hidden", "x");
  source.write("original/params.json", "{}");
  const test::TemporaryFolder folder;
  quantized(source.path(), folder.file("out") + "/", blocks_in(WeightFormat::mxfp4));
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"})
    CHECK(fs::exists(folder.file("out") + "/" + name));
  CHECK(test::read_file(folder.file("out/chat_template.jinja")) == "{{ messages }}");
  for (const char* name : {"pytorch_model.bin", ".hidden", "original"})
    CHECK_FALSE(fs::exists(folder.file("out") + "/" + name));
  CHECK(folder.entries() == 1);
}

TEST_CASE("shards stay shards, and their index names what is in them") {
  WeightsFile whole(test::demo("draft"));
  WeightsFile first = whole;
  WeightsFile second = whole;
  json::object map;
  int i = 0;
  for (const std::string& name : whole.names()) {
    const bool in_first = i++ % 2 == 0;
    (in_first ? second : first).remove(name);
    map[name] = in_first ? "model-1.safetensors" : "model-2.safetensors";
  }
  const test::TemporaryFolder source;
  test::link_all(test::demo("draft"), source);
  fs::remove(source.file("model.safetensors"));
  source.write("model-1.safetensors", first.bytes());
  source.write("model-2.safetensors", second.bytes());
  source.write("model.safetensors.index.json", json::serialize(json::object{{"weight_map", map}}));
  const test::TemporaryFolder folder;
  quantized(source.path(), folder.file("out"), blocks_in(WeightFormat::mxfp6));
  CHECK_FALSE(fs::exists(folder.file("out/model.safetensors")));
  LoadOptions options;
  options.blocks = {WeightFormat::mxfp6};
  CHECK(test::logits_of(loaded(folder.file("out")), sample_tokens) ==
        test::logits_of(loaded(test::demo("draft"), options), sample_tokens));
}

TEST_CASE("the report says what each kind of layer lost") {
  const test::TemporaryFolder folder;
  const auto fine =
      quantized(test::demo("draft"), folder.file("fine"), blocks_in(WeightFormat::mxfp8));
  const auto coarse =
      quantized(test::demo("draft"), folder.file("coarse"), blocks_in(WeightFormat::mxfp4));
  REQUIRE(fine.kinds.size() == 7); // q, k, v, o, gate, up, down
  REQUIRE(coarse.kinds.size() == 7);
  std::uint64_t weights = 0;
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(fine.kinds[i].bits() == doctest::Approx(8.25));
    CHECK(coarse.kinds[i].bits() == doctest::Approx(4.25));
    CHECK(fine.kinds[i].error.relative() < 1e-3);
    CHECK(coarse.kinds[i].error.relative() > fine.kinds[i].error.relative());
    CHECK(coarse.kinds[i].error.relative() < 0.05);
    CHECK(coarse.kinds[i].error.largest > fine.kinds[i].error.largest);
    CHECK(coarse.kinds[i].error.mean_squared() <
          coarse.kinds[i].error.largest * coarse.kinds[i].error.largest);
    weights += coarse.kinds[i].error.weights;
  }
  CHECK(coarse.bytes_before - coarse.bytes_after == weights * 2 - weights * 17 / 32);
  CHECK(coarse.bytes_before > fine.bytes_after);
}

TEST_CASE("nothing is written over, and nothing is left behind") {
  const test::TemporaryFolder folder;
  QuantizeOptions options = blocks_in(WeightFormat::mxfp4);
  const auto attempt = [&](const std::string& from, const std::string& to) {
    const auto report = quantize_checkpoint(from, to, options);
    REQUIRE_FALSE(report);
    return report.error();
  };
  folder.write("there/file", "mine");
  fs::create_directory(folder.file("empty"));
  fs::create_symlink("nowhere", folder.file("link"));
  for (const char* name : {"there", "empty", "link", "there/file"}) {
    CHECK(attempt(test::demo("draft"), folder.file(name)).code == ErrorCode::invalid_argument);
    CHECK(folder.entries() == 3);
  }
  CHECK(test::read_file(folder.file("there/file")) == "mine");
  CHECK(attempt(test::demo("draft"), folder.file("no/such/parent")).code == ErrorCode::unavailable);

  int asked = 0;
  options.cancelled = [&] { return ++asked > 3; };
  CHECK(attempt(test::demo("draft"), folder.file("out")).code == ErrorCode::cancelled);
  CHECK(folder.entries() == 3);
  options.cancelled = {};

  const test::TemporaryFolder broken;
  test::link_all(test::demo("draft"), broken);
  WeightsFile weights(test::demo("draft"));
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  std::memcpy(weights.at(name) + 2 * 128, "\x80\x7F", 2); // Infinity, at the start of row 1.
  broken.write("model.safetensors", weights.bytes());
  const Error error = attempt(broken.path(), folder.file("out"));
  CHECK(error.code == ErrorCode::corrupt);
  CHECK_MESSAGE(error.message.find(name + " holds a number that is not finite in row 1") !=
                    std::string::npos,
                error.text());
  CHECK(folder.entries() == 3);

  quantized(test::demo("draft"), folder.file("once"), options);
  CHECK(attempt(folder.file("once"), folder.file("twice")).message.find("quantized already") !=
        std::string::npos);
  CHECK(folder.entries() == 4);
}
