// Checkpoints that others quantized: what is read, what is refused, and what damage is called.
#include "gpu/mx.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/quantize.hpp"
#include "tests/models/support.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <random>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;
using test::WeightsFile;

namespace {

const std::vector<TokenId> prompt_tokens{348, 277, 1, 2, 3, 4, 5, 1000, 17, 42};

/// The demo's draft, quantized by us, to be changed.
class QuantizedCopy {
public:
  explicit QuantizedCopy(WeightFormat format = WeightFormat::mxfp4) : weights_(made(format)) {
    config_ = json::parse(test::read_file(path() + "/config.json")).as_object();
  }

  std::string path() const { return folder_.file("model"); }
  WeightsFile& weights() { return weights_; }
  json::object& config() { return config_; }
  json::object& quantization() { return config_.at("quantization_config").as_object(); }

  Result<std::shared_ptr<const Model>> load(const LoadOptions& options = {}) const {
    folder_.write("model/model.safetensors", weights_.bytes());
    folder_.write("model/config.json", json::serialize(config_));
    return test::load(path(), test::device(), options);
  }
  std::vector<std::vector<float>> logits(const LoadOptions& options = {}) const {
    const auto model = load(options);
    REQUIRE_MESSAGE(model, model.error().text());
    return test::logits_of(*model, prompt_tokens);
  }
  /// What the refusal says.
  std::string refusal(const LoadOptions& options = {}) const {
    const auto model = load(options);
    REQUIRE_FALSE(model);
    CHECK(!model.error().hint.empty());
    CHECK(model.error().text().find('\n') == std::string::npos);
    return model.error().text();
  }

private:
  WeightsFile made(WeightFormat format) const {
    QuantizeOptions options;
    options.blocks = {format};
    REQUIRE(quantize_checkpoint(test::demo("draft"), path(), options));
    return WeightsFile(path());
  }

  test::TemporaryFolder folder_;
  WeightsFile weights_;
  json::object config_;
};

bool is_layer(const std::string& name) {
  return name.ends_with("_proj.weight");
}

json::object mx_scheme(int bits) {
  return {{"num_bits", bits},
          {"type", "float"},
          {"strategy", "group"},
          {"symmetric", true},
          {"dynamic", false},
          {"group_size", 32},
          {"actorder", nullptr},
          {"block_structure", nullptr},
          {"scale_dtype", "torch.uint8"}};
}

json::object compressed_tensors(const char* format, json::object weights,
                                json::value activations = nullptr) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"ignore", {"lm_head"}},
          {"kv_cache_scheme", nullptr},
          {"sparsity_config", json::object()},
          {"transform_config", json::object()},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", std::move(weights)},
              {"input_activations", std::move(activations)},
              {"output_activations", nullptr},
              {"format", format}}}}}};
}

/// The demo's draft with its linear layers as FP8 codes and scales of f32, and beside it the same
/// numbers as f32.
struct ScaledPair {
  test::TemporaryFolder coded;
  test::TemporaryFolder plain;
  WeightsFile codes{test::demo("draft")};
  json::object config =
      json::parse(test::read_file(test::demo("draft") + "/config.json")).as_object();

  /// rows_each, cols_each: outputs and inputs of a scale; 0: all.
  ScaledPair(int rows_each, int cols_each, const std::string& suffix, json::object quantization) {
    test::link_all(test::demo("draft"), coded);
    test::link_all(test::demo("draft"), plain);
    WeightsFile numbers = codes;
    for (const std::string& name : codes.names())
      if (is_layer(name))
        put_layer(numbers, name, rows_each, cols_each, suffix);
    config["quantization_config"] = std::move(quantization);
    plain.write("model.safetensors", numbers.bytes());
    write();
  }

  void write() const {
    coded.write("model.safetensors", codes.bytes());
    coded.write("config.json", json::serialize(config));
  }

  void put_layer(WeightsFile& numbers, const std::string& name, int rows_each, int cols_each,
                 const std::string& suffix) {
    const int rows = int(codes.shape(name)[0]);
    const int cols = int(codes.shape(name)[1]);
    const bool one_for_all = rows_each == 0 && cols_each == 0;
    rows_each = rows_each ? rows_each : rows;
    cols_each = cols_each ? cols_each : cols;
    const int down = (rows + rows_each - 1) / rows_each;
    const int across = (cols + cols_each - 1) / cols_each;
    std::mt19937 random(unsigned(name.size()));
    std::vector<float> scales(std::size_t(down * across));
    for (float& scale : scales)
      scale = 0.001f + float(random() % 1000) * 1e-6f;
    std::string bytes(std::size_t(rows * cols), '\0');
    std::vector<float> values(bytes.size());
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) {
        const auto code = std::uint8_t(random() % 0x70 | (random() % 2) << 7);
        const auto at = std::size_t(r * cols + c);
        bytes[at] = char(code);
        values[at] = gpu::decode_element(gpu::e4m3, code) *
                     scales[std::size_t(r / rows_each * across + c / cols_each)];
      }
    const auto raw = [](const std::vector<float>& all) {
      return std::string_view(reinterpret_cast<const char*>(all.data()), all.size() * 4);
    };
    numbers.put(name, "F32", {rows, cols}, raw(values));
    codes.put(name, "F8_E4M3", {rows, cols}, bytes);
    const std::vector<std::int64_t> shape =
        one_for_all ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{down, across};
    codes.put(name.substr(0, name.size() - 6) + suffix, "F32", shape, raw(scales));
  }

  std::vector<std::vector<float>> logits(const test::TemporaryFolder& folder,
                                         LoadOptions options = {}) const {
    const auto model = test::load(folder.path(), test::device(), options);
    REQUIRE_MESSAGE(model, model.error().text());
    return test::logits_of(*model, prompt_tokens);
  }
};

json::object deepseek_config() {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {128, 128}}};
}

} // namespace

TEST_CASE("compressed-tensors' FP4 and FP8 blocks are read as Quark's are") {
  QuantizedCopy four(WeightFormat::mxfp4);
  const auto expected = four.logits();
  for (const std::string& name : four.weights().names())
    if (is_layer(name))
      four.weights().rename(name, name + "_packed");
  four.quantization() = compressed_tensors("mxfp4-pack-quantized", mx_scheme(4));
  CHECK(four.logits() == expected);
  CHECK((*four.load())->info().weights == "mxfp4");

  QuantizedCopy eight(WeightFormat::mxfp8);
  const auto with_quark = eight.logits();
  eight.quantization() = compressed_tensors("mxfp8-quantized", mx_scheme(8), mx_scheme(8));
  CHECK(eight.logits() == with_quark);
  CHECK((*eight.load())->info().weights == "mxfp8");
  CHECK(FolderSource(eight.path()).config()->quantization.activations);
  CHECK_FALSE(FolderSource(four.path()).config()->quantization.activations);
}

TEST_CASE("scales may be of the type that is made for them") {
  QuantizedCopy model;
  const auto expected = model.logits();
  for (const std::string& name : model.weights().names())
    if (name.ends_with("_scale"))
      model.weights().header.at(name).as_object()["dtype"] = "F8_E8M0";
  CHECK(model.logits() == expected);
}

TEST_CASE("scales of activations are left alone") {
  QuantizedCopy model;
  const auto expected = model.logits();
  json::object& global = model.quantization().at("global_quant_config").as_object();
  global["input_tensors"] = {{"dtype", "fp8_e4m3"}, {"qscheme", "per_tensor"}};
  model.weights().put("model.layers.0.mlp.up_proj.input_scale", "F32", {}, "abcd");
  CHECK(model.logits() == expected);
}

TEST_CASE(
    "a layer of its own format is found by its name, and one that is left out by its numbers") {
  QuantizedCopy six(WeightFormat::mxfp6_e3m2);
  const auto expected = six.logits();
  const json::value e3m2 = six.quantization().at("global_quant_config");
  six.quantization()["global_quant_config"].as_object()["weight"].as_object()["dtype"] = "fp6_e2m3";
  CHECK(six.logits() != expected);
  six.quantization()["layer_quant_config"] = {{"*.mlp.*", e3m2}, {"*self_attn*_proj", e3m2}};
  CHECK(six.logits() == expected);

  QuantizedCopy some;
  const WeightsFile plain(test::demo("draft"));
  const std::string down = "model.layers.0.mlp.down_proj.weight";
  some.weights().put(down, "BF16", plain.shape(down), plain.tensor(down));
  some.weights().remove(down + "_scale");
  CHECK((*some.load())->info().weights == "bf16+mxfp4");
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  some.weights().put(up, "BF16", plain.shape(up), plain.tensor(up));
  some.weights().remove(up + "_scale");
  CHECK(some.refusal().find("gate_proj.weight is mxfp4, and model.layers.0.mlp.up_proj.weight") !=
        std::string::npos);
}

TEST_CASE("FP8 weights are the numbers that codes and scales stand for") {
  LoadOptions wide;
  wide.dtype = NumberFormat::f32;
  LoadOptions six;
  six.blocks = {WeightFormat::mxfp6};
  json::object channel{
      {"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}, {"symmetric", true}};
  json::object per_tensor{{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  for (const ScaledPair& pair :
       {ScaledPair(128, 128, "weight_scale_inv", deepseek_config()),
        ScaledPair(1, 0, "weight_scale", compressed_tensors("float-quantized", channel, channel)),
        ScaledPair(0, 0, "weight_scale", per_tensor)}) {
    CHECK(pair.logits(pair.coded, wide) == pair.logits(pair.plain, wide));
    LoadOptions narrow;
    narrow.dtype = NumberFormat::bf16;
    CHECK(pair.logits(pair.coded) == pair.logits(pair.plain, narrow)); // As the embedding is.
    LoadOptions narrow_six = six;
    narrow_six.dtype = NumberFormat::bf16;
    CHECK(pair.logits(pair.coded, six) == pair.logits(pair.plain, narrow_six));
    const auto model = test::load(pair.coded.path(), test::device(), {});
    CHECK((*model)->info().weights == "bf16");
    CHECK((*model)->info().parameters == 918'144);
  }
}

TEST_CASE("what is quantized already is not rounded twice") {
  QuantizedCopy model;
  const auto expected = model.logits();
  LoadOptions options;
  options.blocks = {WeightFormat::mxfp4, ScaleChoice::floor};
  CHECK(model.logits(options) == expected);
  options.blocks = {WeightFormat::mxfp6};
  const std::string refusal = model.refusal(options);
  CHECK_MESSAGE(refusal.find("is mxfp4 already") != std::string::npos, refusal);
  CHECK(refusal.find("EngineOptions::weights") != std::string::npos);
  options = {};
  options.head = {WeightFormat::mxfp8};
  CHECK((*model.load(options))->info().head_weights == "mxfp8");
}

TEST_CASE("damaged blocks are errors that name their tensors") {
  const std::string layer = "model.layers.1.self_attn.o_proj";
  const std::string weight = layer + ".weight";
  const std::string scale = weight + "_scale";
  const std::pair<std::function<void(WeightsFile&)>, std::string> cases[] = {
      {[&](WeightsFile& w) { w.remove(scale); }, scale + " is missing"},
      {[&](WeightsFile& w) { w.remove(weight); }, weight + " is missing"},
      {[&](WeightsFile& w) { w.at(scale)[5] = '\xFF'; }, scale + " is NaN at [1, 1]"},
      {[&](WeightsFile& w) {
         w.put(scale, "U8", {128, 3}, w.tensor(scale).substr(0, 384));
       },
       scale + " is [128, 3], where config.json wants [128, 4]"},
      {[&](WeightsFile& w) {
         w.put(scale, "U8", {127, 4}, w.tensor(scale).substr(0, 508));
       },
       scale + " is [127, 4]"},
      {[&](WeightsFile& w) {
         w.put(scale, "BF16", {128, 4}, std::string(1024, '\x3F'));
       },
       scale + " is of BF16"},
      {[&](WeightsFile& w) {
         w.put(weight, "U8", {128, 96}, std::string(std::size_t(128) * 96, '\0'));
       },
       weight + " is [128, 96], where config.json wants [128, 64]"},
      {[&](WeightsFile& w) { w.header.at(weight).as_object()["dtype"] = "F8_E8M0"; },
       weight + " is of F8_E8M0"},
      {[&](WeightsFile& w) { w.put(weight + "_zero_point", "U8", {1}, "x"); },
       "unexpected tensor " + weight + "_zero_point"},
  };
  for (const auto& [damage, name] : cases) {
    const auto& expected = name;
    CAPTURE(expected);
    QuantizedCopy model;
    damage(model.weights());
    const std::string refusal = model.refusal();
    CHECK_MESSAGE(refusal.find(expected) != std::string::npos, refusal);
  }
  QuantizedCopy plain;
  plain.config().erase("quantization_config");
  CHECK(plain.refusal().find("is of U8, where config.json says nothing of quantized") !=
        std::string::npos);
  QuantizedCopy eight(WeightFormat::mxfp8);
  eight.weights().at(weight)[77] = '\x7F';
  CHECK(eight.refusal().find(weight + " holds a number that is not finite") != std::string::npos);
}

TEST_CASE("damaged FP8 scales are errors that name their tensors") {
  const std::string layer = "model.layers.1.mlp.down_proj";
  const std::string scale = layer + ".weight_scale_inv";
  const std::pair<std::function<void(ScaledPair&)>, std::string> cases[] = {
      {[&](ScaledPair& p) { p.codes.remove(scale); }, layer + ".weight_scale is missing"},
      {[&](ScaledPair& p) { std::memset(p.codes.at(scale), 0xFF, 4); },
       scale + " holds a scale that is not a finite number"},
      {[&](ScaledPair& p) {
         p.codes.put(scale, "F32", {1, 2}, "12345678");
       },
       scale + " is [1, 2], where config.json wants [1, 3]"},
      {[&](ScaledPair& p) {
         p.codes.put(scale, "U8", {1, 3}, "123");
       },
       scale + " is of U8"},
      {[&](ScaledPair& p) { p.codes.at(layer + ".weight")[9] = '\xFF'; },
       layer + ".weight holds a number that is not finite"},
      {[&](ScaledPair& p) {
         p.config["quantization_config"].as_object()["weight_block_size"] = {64, 128};
       },
       "config.json wants ["},
  };
  for (const auto& [damage, name] : cases) {
    const auto& expected = name;
    CAPTURE(expected);
    ScaledPair pair(128, 128, "weight_scale_inv", deepseek_config());
    damage(pair);
    pair.write();
    const auto model = test::load(pair.coded.path(), test::device(), {});
    REQUIRE_FALSE(model);
    CHECK(paceline::testing::says(model.error(), expected));
  }
}

TEST_CASE("methods that are not read are refused by their names") {
  json::object nvfp4 = mx_scheme(4);
  nvfp4["group_size"] = 16;
  json::object integers = mx_scheme(4);
  integers["type"] = "int";
  json::object sparse = compressed_tensors("mxfp4-pack-quantized", mx_scheme(4));
  sparse["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  json::object rotated = compressed_tensors("mxfp4-pack-quantized", mx_scheme(4));
  rotated["transform_config"] = {{"config_groups", {{"R1", json::object()}}}};
  const auto quark = [](const char* weight, const char* more = "") {
    return json::parse(
               std::string(R"({"quant_method": "quark", "global_quant_config": {"weight": )") +
               weight + "}" + more + "}")
        .as_object();
  };
  const char* fp4 =
      R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"})";
  const std::pair<json::object, std::string> cases[] = {
      {{{"quant_method", "modelopt"}}, "quantized by modelopt"},
      {{{"quant_method", "mxfp4"}}, "quantized by mxfp4"},
      {{{"quant_method", "quark"}, {"global_quant_config", 7}}, "quantized by Quark"},
      {quark(R"({"dtype": "int4", "qscheme": "per_group", "group_size": 128})"),
       "Quark (quantization_config) to int4 per_group of 128"},
      {quark(R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 16})"), "fp4"},
      {quark(R"([{"dtype": "fp8_e4m3"}, {"dtype": "int4"}])"), "of two parts"},
      {quark(fp4, R"(, "algo_config": [{"name": "quarot"}])"), "with quarot"},
      {quark(fp4, R"(, "layer_quant_config": {"re:.*": {"weight": null}})"), "pattern re:.*"},
      {quark(fp4, R"(, "layer_type_quant_config": {"Linear": {}})"), "layer_type_quant_config"},
      {compressed_tensors("nvfp4-pack-quantized", nvfp4), "compressed-tensors"},
      {compressed_tensors("pack-quantized", integers), "4 bits of int"},
      {sparse, "sparsity_config"},
      {rotated, "transform_config"},
      {{{"quant_method", "compressed-tensors"}}, "without config_groups"},
      {{{"quant_method", "fp8"}, {"fmt", "e3m4"}}, "fp8"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {128}}}, "weight_block_size"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {0, 128}}}, "weight_block_size"},
  };
  const test::TemporaryFolder folder;
  json::object config =
      json::parse(test::read_file(test::demo("draft") + "/config.json")).as_object();
  for (const auto& [quantization, name] : cases) {
    const auto& expected = name;
    CAPTURE(expected);
    config["quantization_config"] = quantization;
    folder.write("config.json", json::serialize(config));
    const auto refused = FolderSource(folder.path()).config();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::unsupported);
    CHECK_MESSAGE(refused.error().message.find(expected) != std::string::npos,
                  refused.error().text());
    CHECK(refused.error().message.find("which is not read") != std::string::npos);
  }
}
