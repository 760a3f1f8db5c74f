// Promises 1 and 2 with a mixture of experts as the target, made of the demo's.
#include "base/bf16.hpp"
#include "tests/engine/draft_checks.hpp"
#include "tests/models/support.hpp"
#include "tests/models/weights_file.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

constexpr int experts = 6;

/// The numbers of a matrix, each multiplied.
std::string scaled(std::string_view bytes, float factor) {
  std::string out(bytes);
  for (std::size_t at = 0; at < out.size(); at += 2) {
    base::bf16 value;
    std::memcpy(&value, out.data() + at, 2);
    value = base::to_bf16(base::to_float(value) * factor);
    std::memcpy(out.data() + at, &value, 2);
  }
  return out;
}

/// A router that tells rows apart, whatever they are.
std::string router(int hidden) {
  std::string out;
  for (int i = 0; i < experts * hidden; ++i) {
    const std::uint16_t bits = base::to_bf16(float(i * 7919 % 61 - 30) / 256).bits;
    out.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return out;
}

/// A family of mixtures, and what its files call the parts of a layer.
struct Kind {
  const char* architecture;
  json::object options;
  int first = 0; ///< The first layer that is a mixture.
  const char* router;
  const char* experts;
  const char* parts[3]; ///< Of an expert: gate, up and down; null: all experts are in one tensor.
  const char* router_bias = nullptr;
  const char* shared = nullptr; ///< Before the names of a shared expert's parts.
};

Kind mixtral() {
  return {"MixtralForCausalLM",
          {{"num_local_experts", experts}, {"num_experts_per_tok", 2}},
          0,
          "block_sparse_moe.gate",
          "block_sparse_moe.experts.",
          {"w1", "w3", "w2"}};
}

/// A shared expert gives half of the sum, and the two that a row is routed to, of two groups of
/// three, the other half.
Kind glm() {
  return {"Glm4MoeForCausalLM",
          {{"n_routed_experts", experts},
           {"num_experts_per_tok", 2},
           {"moe_intermediate_size", 1024},
           {"n_shared_experts", 1},
           {"first_k_dense_replace", 1},
           {"routed_scaling_factor", 0.5},
           {"n_group", 2},
           {"topk_group", 1},
           {"partial_rotary_factor", 1.0}},
          1,
          "mlp.gate",
          "mlp.experts.",
          {"gate_proj", "up_proj", "down_proj"},
          "mlp.gate.e_score_correction_bias",
          "mlp.shared_experts."};
}

/// gpt-oss, so that an expert computes what the others' do: up's bias takes away what is added to
/// it, and no bound is reached. Sinks take a little of every head, and half of the layers look back
/// a few tokens only.
Kind gpt_oss() {
  return {"GptOssForCausalLM",
          {{"num_local_experts", experts},
           {"num_experts_per_tok", 2},
           {"swiglu_alpha", 1.0},
           {"swiglu_limit", 1e6},
           {"sliding_window", 9},
           {"attention_bias", false},
           {"rope_scaling", {{"rope_type", "default"}}}},
          0,
          "mlp.router",
          "mlp.experts.",
          {}};
}

std::string bf16s(std::size_t count, const std::function<float(std::size_t)>& value) {
  std::string out(2 * count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits = base::to_bf16(value(i)).bits;
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

/// Puts the experts of a layer in the place of its feed-forward, all in one tensor, [experts,
/// inputs, outputs], with outputs of gate and up in turn.
void put_stacks(models::test::WeightsFile& weights, const std::string& prefix) {
  const auto shape = weights.shape(prefix + "mlp.gate_proj.weight");
  const auto ffn = std::size_t(shape[0]);
  const auto hidden = std::size_t(shape[1]);
  const std::string parts[] = {std::string(weights.tensor(prefix + "mlp.gate_proj.weight")),
                               std::string(weights.tensor(prefix + "mlp.up_proj.weight"))};
  const std::string narrow(weights.tensor(prefix + "mlp.down_proj.weight"));
  std::string wide;
  for (std::size_t i = 0; i < hidden; ++i)
    for (std::size_t o = 0; o < 2 * ffn; ++o)
      wide += parts[o % 2].substr((o / 2 * hidden + i) * 2, 2);
  std::string turned;
  for (std::size_t i = 0; i < ffn; ++i)
    for (std::size_t o = 0; o < hidden; ++o)
      turned += narrow.substr((o * ffn + i) * 2, 2);
  std::string all_wide;
  std::string all_down;
  for (int e = 0; e < experts; ++e) {
    all_wide += wide;
    all_down += scaled(turned, 0.8f + 0.08f * float(e));
  }
  for (const char* part : {"gate_proj", "up_proj", "down_proj"})
    weights.remove(prefix + "mlp." + part + ".weight");
  const auto put = [&](const char* name, const std::vector<std::size_t>& sizes,
                       std::string_view bytes) {
    weights.put(prefix + name, "BF16", {sizes.begin(), sizes.end()}, bytes);
  };
  put("mlp.experts.gate_up_proj", {experts, hidden, 2 * ffn}, all_wide);
  put("mlp.experts.gate_up_proj_bias", {experts, 2 * ffn},
      bf16s(experts * 2 * ffn, [](std::size_t i) { return i % 2 == 0 ? 0.0f : -1.0f; }));
  put("mlp.experts.down_proj", {experts, ffn, hidden}, all_down);
  put("mlp.experts.down_proj_bias", {experts, hidden},
      bf16s(experts * hidden, [](std::size_t) { return 0.0f; }));
  put("mlp.router.bias", {experts}, router(1));
  put("self_attn.sinks", {6}, bf16s(6, [](std::size_t i) { return float(i) / 2 - 3; }));
}

/// The demo target as a mixture. Each expert is its feed-forward, with other weight.
void write_mixture(const TemporaryFolder& folder, const Kind& kind = mixtral()) {
  models::test::link_all(demo("target"), folder);
  json::object config = json::parse(read_file(folder.file("config.json"))).as_object();
  config.erase("model_type");
  config["architectures"] = {kind.architecture};
  for (const auto& [key, value] : kind.options)
    config[key] = value;
  models::test::WeightsFile weights(folder.path());
  for (int layer = kind.first; layer < 6; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const char* const dense[] = {"gate_proj", "up_proj", "down_proj"};
    if (!kind.parts[0])
      put_stacks(weights, prefix);
    for (int part = 0; kind.parts[0] && part < 3; ++part) {
      const std::string from = prefix + "mlp." + dense[part] + ".weight";
      const std::string bytes(weights.tensor(from));
      const auto shape = weights.shape(from);
      weights.remove(from);
      const auto put = [&](const std::string& name, float factor) {
        weights.put(prefix + name + kind.parts[part] + ".weight", "BF16", shape,
                    scaled(bytes, part == 2 ? factor : 1));
      };
      for (int e = 0; e < experts; ++e)
        put(kind.experts + std::to_string(e) + ".", 0.8f + 0.08f * float(e));
      if (kind.shared)
        put(kind.shared, 0.5f);
    }
    weights.put(prefix + kind.router + ".weight", "BF16", {experts, 384}, router(384));
    if (kind.router_bias)
      weights.put(prefix + kind.router_bias, "BF16", {experts}, router(1));
  }
  folder.write("config.json", json::serialize(config));
  folder.write("model.safetensors", weights.bytes());
}

EngineOptions options_for(const TemporaryFolder& folder) {
  EngineOptions options;
  options.target = folder.path();
  options.threads = 2;
  return options;
}

std::vector<Request> mixture_requests() {
  return {repeatable("import os\nimport sys\n", 24), repeatable("class Stack:\n", 24, 7)};
}

} // namespace

TEST_CASE("with a mixture: the same tokens in every mode, chunk, page, batch and team") {
  for (const Kind& kind : {mixtral(), glm(), gpt_oss()}) {
    CAPTURE(std::string(kind.architecture));
    const TemporaryFolder folder;
    write_mixture(folder, kind);
    EngineOptions options = options_for(folder);
    options.threads = 1;
    options.max_num_seqs = 1;
    const auto expected = plain_answers_of(options, mixture_requests());
    for (const char* draft : {"demo", "self:mxfp4"})
      for (const SpeculationMode mode :
           {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
        CAPTURE(std::string(draft));
        SpeculationStats stats;
        CHECK(answers_of(drafting(options_for(folder), draft, mode), mixture_requests(), &stats) ==
              expected);
        CHECK(stats.accepted > 0);
      }
  }
}

TEST_CASE("a mixture in stages has the tokens of the whole, and in shards tokens all the same") {
  for (const Kind& kind : {mixtral(), glm(), gpt_oss()}) {
    CAPTURE(std::string(kind.architecture));
    const TemporaryFolder folder;
    write_mixture(folder, kind);
    EngineOptions options = options_for(folder);
    const auto expected = plain_answers_of(options, mixture_requests());
    options.drafters = {"demo"};
    options.devices = {"cpu:0", "cpu:1"};
    CHECK(answers_of(options, mixture_requests()) == expected);
    options.tensor_parallel_size = 2;
    const auto divided = plain_answers_of(options, mixture_requests());
    CHECK(answers_of(options, mixture_requests()) == divided);
  }
}

TEST_CASE("a mixture is quantized while it is loaded, its router apart") {
  const TemporaryFolder folder;
  write_mixture(folder);
  EngineOptions options = options_for(folder);
  const ModelInfo plain = open_engine(options).target();
  options.weights = WeightFormat::mxfp4;
  options.drafters = {"demo"};
  options.speculation = SpeculationMode::sync;
  const ModelInfo blocks = open_engine(options).target();
  CHECK(blocks.weights == "mxfp4");
  CHECK(blocks.parameters == plain.parameters);
  CHECK(blocks.weight_bytes < plain.weight_bytes * 0.35);
  CHECK(answers_of(options, mixture_requests()) == plain_answers_of(options, mixture_requests()));
}
