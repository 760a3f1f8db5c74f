#include "models/checkpoint/gguf_architecture.hpp"

#include "text/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <vector>

namespace paceline::models {
namespace {

constexpr GgufArchitecture known_architectures[] = {
    {"dots1", "Dots1ForCausalLM", false, "ffn_norm", 2},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "Gemma3ForCausalLM"},
    {"gemma4", "Gemma4ForCausalLM", false, "ffn_norm", 1, false, ""},
    {"glm4moe", "Glm4MoeForCausalLM", false, "post_attention_norm", 2},
    {"gpt-oss", "GptOssForCausalLM", false, "post_attention_norm", 3},
    {"gpt2", "GPT2LMHeadModel", false, "ffn_norm", 1, true},
    {"gptneox", "GPTNeoXForCausalLM", false, "ffn_norm", 1, true},
    {"granite", "GraniteForCausalLM", true},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", true},
    {"granitemoe", "GraniteMoeSharedForCausalLM", true},
    {"lfm2", "Lfm2ForCausalLM"},
    {"lfm2moe", "Lfm2MoeForCausalLM", false, "ffn_norm", 2},
    {"llama", "LlamaForCausalLM", true},
    {"mistral3", "MistralForCausalLM", true},
    {"nemotron_h", "NemotronHForCausalLM", false, "attn_norm", 2},
    {"nemotron_h_moe", "NemotronHForCausalLM", false, "attn_norm", 2},
    {"olmo2", "Olmo2ForCausalLM"},
    {"olmoe", "OlmoeForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen2moe", "Qwen2MoeForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen35", "Qwen3_5ForCausalLM", false, "post_attention_norm"},
    {"qwen35moe", "Qwen3_5MoeForCausalLM", false, "post_attention_norm"},
    {"qwen3moe", "Qwen3MoeForCausalLM"},
    {"qwen3next", "Qwen3NextForCausalLM", false, "post_attention_norm"},
    {"smollm3", "SmolLM3ForCausalLM", true},
};

} // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  const auto* at = std::ranges::find(known_architectures, name, &GgufArchitecture::name);
  return at == std::end(known_architectures) ? nullptr : at;
}

std::span<const GgufArchitecture> known_gguf_architectures() {
  return known_architectures;
}

std::string gguf_architecture_names() {
  std::vector<const char*> names;
  for (const GgufArchitecture& each : known_architectures)
    names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<const GgufArchitecture*> gguf_architecture(const GgufFiles& files) {
  const auto name = files.string("general.architecture");
  if (!name)
    return tl::unexpected(name.error());
  if (!*name)
    return files.wrong("general.architecture is missing");
  if (const GgufArchitecture* known = find_gguf_architecture(**name))
    return known;
  return files.wrong(fmt::format("architecture {} is not known", text::shown(**name)), {},
                     ErrorCode::unsupported, "use a model of one of " + gguf_architecture_names());
}

} // namespace paceline::models
