#include "tests/models/gguf_cases.hpp"

#include "tests/models/reference_checkpoint.hpp"

#include <boost/json.hpp>
#include <string>
#include <utility>

namespace paceline::models::test {
namespace json = boost::json;

std::vector<GgufCase> gguf_cases() {
  const json::object whole{{"query_pre_attn_scalar", 16}}; // The head's length is what files mean.
  return {
      {"Llama 2, TinyLlama", "llama"},
      {"Llama with biases, one head of keys for each query", "llama"},
      {"linear positions", "llama"},
      {"YaRN", "llama"},
      {"SmolLM 2", "llama"},
      {"Mistral with a window", "llama"},
      {"Mistral without one", "mistral3"},
      {"Ministral 3", "mistral3"},
      {"Qwen 2", "qwen2"},
      {"Qwen 3", "qwen3"},
      {"Gemma 2", "gemma2", whole},
      {"Gemma 3", "gemma3", whole},
      {"Gemma 3 with a soft cap of logits", "gemma3", whole},
      {"Gemma 4", "gemma4"},
      {"Gemma 4 with embeddings of layers, and keys that these share", "gemma4"},
      {"Gemma 4 MoE", "gemma4"},
      {"Phi 3", "phi3"},
      {"Phi 3 that rotates a part of each head", "phi3"},
      {"SmolLM 3", "smollm3", {{"no_rope_layer_interval", 4}}},
      {"OLMo 2", "olmo2"},
      {"OLMo 3", "olmo2"},
      {"Granite 3", "granite"},
      {"Granite 3 MoE", "granitemoe"},
      {"Granite 3 MoE with a shared expert", "granitemoe"},
      {"Granite 4", "granitehybrid"},
      {"LFM 2", "lfm2"},
      {"LFM 2 MoE", "lfm2moe"},
      {"Nemotron-H", "nemotron_h"},
      {"Nemotron-H MoE", "nemotron_h_moe"},
      {"Mixtral", "llama"},
      {"Qwen 3 MoE", "qwen3moe"},
      {"OLMoE", "olmoe"},
      {"Qwen 2 MoE", "qwen2moe"},
      {"GLM-4.5", "glm4moe"},
      {"GLM-4.5 Air, with groups", "glm4moe"},
      {"dots.llm1", "dots1"},
      {"gpt-oss", "gpt-oss", {{"swiglu_limit", 7.0}}}, // Files have no word for another.
      {"Qwen 3.5", "qwen35", {}, true},
      {"Qwen 3.5 that ends with a recurrent layer", "qwen35"},
      {"Qwen 3.5 MoE", "qwen35moe"},
      {"Qwen 3 Next", "qwen3next"},
      {"GPT-2", "gpt2"},
      // Files have no words for another activation, or another scale of attention.
      {"GPT-2 with its options",
       "gpt2",
       {{"activation_function", "gelu_new"}, {"scale_attn_weights", true}}},
      {"Pythia", "gptneox"},
      {"GPT-NeoX in turn", "gptneox", {{"hidden_act", "gelu"}}},
  };
}

void write_case(const TemporaryFolder& folder, const GgufCase& own, gpu::DType dtype) {
  json::object entry = reference_case(own.name);
  entry["shards"] = 1;
  for (const auto& [key, value] : own.change)
    entry["config"].as_object()[key] = value;
  write_checkpoint(folder, entry, dtype);
}

void write_texts(const TemporaryFolder& folder) {
  json::object vocab{{"<end>", 0}, {"<turn>", 1}};
  for (int i = 0; i < 26; ++i)
    vocab[std::string(1, char('a' + i))] = 2 + i;
  vocab["ab"] = 28;
  const json::object tokenizer{
      {"added_tokens",
       {{{"id", 0}, {"content", "<end>"}, {"special", true}},
        {{"id", 1}, {"content", "<turn>"}, {"special", true}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", {"a b"}}}}};
  folder.write("tokenizer.json", json::serialize(tokenizer));
  folder.write(
      "tokenizer_config.json",
      R"({"bos_token": "<end>", "eos_token": "<end>", "chat_template": "{{ bos_token }}x"})");
  folder.write("generation_config.json", R"({"eos_token_id": [0, 1], "do_sample": true,)"
                                         R"( "temperature": 0.75, "top_k": 20, "top_p": 0.5})");
}

} // namespace paceline::models::test
