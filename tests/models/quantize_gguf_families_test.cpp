// GGUF files of mixtures, hybrids and models that also see: other layouts of the same folder become
// the same file, and what files have no word for is refused.
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/models/written_gguf.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using test::GgufCase;

const QuantizeOptions eight = test::as(WeightFormat::q8_0);

/// Writes an entry's folder with its texts, in one shard.
void write_entry(const test::TemporaryFolder& folder, json::object entry) {
  entry["shards"] = 1;
  test::write_checkpoint(folder, entry, gpu::DType::bf16);
  test::write_texts(folder);
}

/// The GGUF file of a case.
std::string file_of(const test::TemporaryFolder& out, const GgufCase& own) {
  const test::TemporaryFolder folder;
  test::write_whole(folder, own, gpu::DType::bf16);
  test::written(folder.path(), out.file("plain.gguf"), eight);
  return out.file("plain.gguf");
}

/// Puts the experts of each layer into one tensor of gates and ups, and one of downs.
void stack_experts(const test::TemporaryFolder& folder, int layers, int experts) {
  test::WeightsFile weights(folder.path());
  for (int layer = 0; layer < layers; ++layer) {
    const std::string all = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    std::string gates_and_ups;
    std::string downs;
    std::vector<std::int64_t> up;
    std::vector<std::int64_t> down;
    for (int expert = 0; expert < experts; ++expert) {
      const std::string own = all + std::to_string(expert);
      up = weights.shape(own + ".up_proj.weight");
      down = weights.shape(own + ".down_proj.weight");
      for (const char* part : {".gate_proj.weight", ".up_proj.weight"})
        gates_and_ups += weights.tensor(own + part);
      downs += weights.tensor(own + ".down_proj.weight");
      for (const char* part : {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"})
        weights.remove(own + part);
    }
    weights.put(all + "gate_up_proj", "BF16", {experts, 2 * up[0], up[1]}, gates_and_ups);
    weights.put(all + "down_proj", "BF16", {experts, down[0], down[1]}, downs);
  }
  folder.write("model.safetensors", weights.bytes());
}

} // namespace

TEST_CASE("experts in one tensor become the file that experts in tensors of their own become") {
  const GgufCase own{"Qwen 3 MoE", "qwen3moe"};
  const test::TemporaryFolder folder;
  test::write_whole(folder, own, gpu::DType::bf16);
  stack_experts(folder, 3, 8);
  const test::TemporaryFolder out;
  test::written(folder.path(), out.file("stacked.gguf"), eight);
  test::check_twins(out.file("stacked.gguf"), file_of(out, own));
}

TEST_CASE("Granite 4 without recurrent layers becomes a Granite 3") {
  const GgufCase own{"Granite 3 MoE with a shared expert", "granitemoe"};
  json::object entry = test::reference_case(own.name);
  json::object& config = entry["config"].as_object();
  config["architectures"] = {"GraniteMoeHybridForCausalLM"};
  config["model_type"] = "granitemoehybrid";
  config["layer_types"] = json::array(3, "attention");
  config["position_embedding_type"] = "rope";
  const test::TemporaryFolder folder;
  write_entry(folder, entry);
  const test::TemporaryFolder out;
  test::written(folder.path(), out.file("m.gguf"), eight);
  test::check_twins(out.file("m.gguf"), file_of(out, own));
  CHECK(test::files_at(out.file("m.gguf"))->string("general.architecture").value() ==
        std::string("granitemoe"));
}

TEST_CASE("blocks that draft are left out") {
  for (const GgufCase& own : {GgufCase{"GLM-4.5", "glm4moe"}, GgufCase{"Qwen 3.5", "qwen35"}}) {
    CAPTURE(own.name);
    const test::TemporaryFolder folder;
    write_entry(folder, test::case_with_mtp(own.name));
    const test::TemporaryFolder out;
    test::written(folder.path(), out.file("m.gguf"), eight);
    test::check_twins(out.file("m.gguf"), file_of(out, own));
  }
}

TEST_CASE("options of mixtures and hybrids that files have no word for are refused") {
  struct Refused {
    GgufCase own;
    const char* what;
  };
  const Refused all[] = {
      {{"Qwen 3 MoE", "", {{"norm_topk_prob", false}}}, "experts"},
      {{"Qwen 2 MoE", "", {{"norm_topk_prob", true}}}, "experts"},
      {{"OLMoE", "", {{"norm_topk_prob", true}}}, "experts"},
      {{"LFM 2 MoE", "", {{"routed_scaling_factor", 2.0}}}, "experts"},
      {{"gpt-oss", "", {{"swiglu_limit", 5.0}}}, "feed-forwards"},
      {{"Granite 4", "", {{"time_step_limit", {0.5, 1.0}}}}, "recurrent layers"},
      {{"Nemotron-H with its options", ""}, "recurrent layers"}, // biases of projections
  };
  const test::TemporaryFolder out;
  for (const auto& [own, what] : all) {
    CAPTURE(own.name);
    const test::TemporaryFolder folder;
    test::write_whole(folder, own, gpu::DType::bf16);
    const Error error = test::not_written(folder.path(), out.file("m.gguf"), eight);
    test::names_it(error, std::string("GGUF files have no word for the ") + what + " of this");
    CHECK(out.entries() == 0);
  }
}

TEST_CASE("tensors that are not of the size that config.json says are named") {
  struct Torn {
    GgufCase own;
    const char* tensor;
    std::vector<std::int64_t> shape;
    const char* named;
  };
  const Torn all[] = {
      {{"Qwen 3.5 MoE", ""}, "model.layers.0.linear_attn.in_proj_z.weight", {6, 48}, "attn_gate"},
      {{"Qwen 3.5 MoE", ""}, "model.layers.0.linear_attn.out_proj.weight", {48, 6}, "ssm_out"},
      {{"Granite 3 MoE", ""},
       "model.layers.1.block_sparse_moe.input_linear.weight",
       {5, 72, 48},
       "blk.1.ffn_gate_exps"},
      {{"Granite 3 MoE", ""},
       "model.layers.0.block_sparse_moe.input_linear.weight",
       {5, 96, 48},
       "blk.0.ffn_gate_exps"},
      {{"Qwen 3 Next", ""},
       "model.layers.0.linear_attn.in_proj_qkvz.weight",
       {600, 48},
       "attn_qkv"},
      {{"Llama 2, TinyLlama", ""}, "model.layers.0.self_attn.q_proj.weight", {47, 48}, "attn_q"},
  };
  const test::TemporaryFolder out;
  for (const auto& [own, tensor, shape, named] : all) {
    CAPTURE(std::string(tensor));
    const test::TemporaryFolder folder;
    test::write_whole(folder, own, gpu::DType::bf16);
    test::WeightsFile weights(folder.path());
    std::size_t bytes = 2;
    for (const std::int64_t size : shape)
      bytes *= std::size_t(size);
    weights.put(tensor, "BF16", shape, std::string(bytes, '\0'));
    folder.write("model.safetensors", weights.bytes());
    const Error error = test::not_written(folder.path(), out.file("m.gguf"), eight);
    test::names_it(error, "is not of the size that config.json says");
    test::names_it(error, named);
  }
  const test::TemporaryFolder folder;
  test::write_whole(folder, {"Mixtral", ""}, gpu::DType::bf16);
  test::WeightsFile weights(folder.path());
  weights.put("model.layers.1.block_sparse_moe.experts.3.w1.weight", "BF16", {79, 48},
              std::string(2 * 79 * 48, '\0'));
  folder.write("model.safetensors", weights.bytes());
  test::names_it(test::not_written(folder.path(), out.file("m.gguf"), eight),
                 "model.layers.1.block_sparse_moe.experts.3.w1.weight has no place");
}

TEST_CASE("tensors without rows of numbers have no place, whatever shape they have") {
  const test::TemporaryFolder out;
  const std::string shared = "model.layers.0.shared_mlp.input_linear.weight";
  const std::string query = "model.layers.0.self_attn.q_proj.weight";
  const auto check = [&](const char* name, const std::string& tensor,
                         const std::vector<std::int64_t>& shape, std::string_view bytes) {
    const test::TemporaryFolder folder;
    test::write_whole(folder, {name, ""}, gpu::DType::bf16);
    test::WeightsFile weights(folder.path());
    weights.put(tensor, "BF16", shape, bytes);
    folder.write("model.safetensors", weights.bytes());
    test::names_it(test::not_written(folder.path(), out.file("m.gguf"), eight),
                   tensor + " has no place");
  };
  check("Granite 4", shared, {}, "12");
  check("Granite 4", shared, {1 << 20, 0}, "");
  check("Llama 2, TinyLlama", query, {48 << 20, 0}, "");
}
