#include "apps/terminal/pull/usual_draft.hpp"

#include <algorithm>
#include <string_view>

namespace paceline::apps::pull {
namespace {

struct UsualDraft {
  std::string_view architecture;
  /// Rows of the embedding in the family, which rounds them up in some sizes.
  int vocabulary_least;
  int vocabulary_most;
  std::string_view in_name; ///< In the target's name, in lower case; empty: any.
  const char* draft;
  int layers; ///< Of the draft, as its width.
  int hidden;
};

constexpr UsualDraft table[] = {
    {"Qwen3ForCausalLM", 151'669, 151'936, "", "Qwen/Qwen3-0.6B", 28, 1024},
    {"Qwen3MoeForCausalLM", 151'669, 151'936, "", "Qwen/Qwen3-0.6B", 28, 1024},
    {"Qwen2ForCausalLM", 151'646, 152'064, "", "Qwen/Qwen2.5-0.5B-Instruct", 24, 896},
    {"LlamaForCausalLM", 128'256, 128'256, "", "meta-llama/Llama-3.2-1B-Instruct", 16, 2048},
    {"LlamaForCausalLM", 32'000, 32'000, "llama", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", 22, 2048},
    {"LlamaForCausalLM", 49'152, 49'152, "smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct", 30, 576},
    {"Gemma3ForCausalLM", 262'144, 262'208, "", "google/gemma-3-270m-it", 18, 640},
    {"Gemma3ForConditionalGeneration", 262'144, 262'208, "", "google/gemma-3-270m-it", 18, 640},
    {"Gemma2ForCausalLM", 256'000, 256'000, "", "google/gemma-2-2b-it", 26, 2304},
    {"Olmo2ForCausalLM", 100'278, 100'352, "", "allenai/OLMo-2-0425-1B-Instruct", 16, 2048},
};

/// A target's step should cost several of the draft's.
constexpr double ratio_least = 3;

/// The matrices of a layer grow with the square of its width.
double size_of(int layers, int hidden) {
  return double(layers) * hidden * hidden;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

} // namespace

std::optional<std::string> usual_draft(const models::ModelConfig& target, const std::string& name) {
  const std::string known = lower_case(name);
  for (const UsualDraft& row : table)
    if (row.architecture == target.architecture && target.vocabulary >= row.vocabulary_least &&
        target.vocabulary <= row.vocabulary_most && known.find(row.in_name) != known.npos &&
        target.draft_blocks == 0 &&
        size_of(target.layers, target.hidden) >= ratio_least * size_of(row.layers, row.hidden))
      return row.draft;
  return std::nullopt;
}

} // namespace paceline::apps::pull
