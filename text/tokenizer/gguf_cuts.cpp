#include "text/tokenizer/gguf_cuts.hpp"

#include <algorithm>

namespace paceline::text {
namespace {

// The expressions by which the tokenizer.json of these models splits a text.
constexpr const char* three_digits = "[0-9][0-9][0-9]";
constexpr const char* llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* qwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* qwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* gpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* tekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* seed_coder = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                   R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* bailing = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* deepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Letters that have a case, as far as the makers of the model listed them.
constexpr const char* deepseek_letters =
    "\\s?(?:(?![\u0560-\u0588\u10c6-\u10ff\u1c80-\u1c88\u2d00-\u2d2f\ua790-\ua7ff"
    "\uab30-\uab6f\U00010570-\U000105bf\U00016e40-\U00016e7f\U0001d400-\U0001d7ff"
    "\U0001df00-\U0001dfff])[\\p{Lu}\\p{Ll}\\p{Lt}])+";
constexpr const char* deepseek_marks =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";
constexpr const char* deepseek_characters = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";

const GgufCut cuts[] = {
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "gigachat",
      "a.x-4.0", "mellum"},
     {gpt2_cut}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {digit_cut, gpt2_cut}},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {llama3},
     true,
     true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {llama3}},
    {{"glm4"}, {llama3}, true},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "kormo", "hunyuan", "solar-open",
      "grok-2"},
     {qwen2}},
    {{"qwen35"}, {qwen35}},
    {{"gpt-4o", "llama4", "kanana2"}, {gpt4o}},
    {{"tekken"}, {tekken}, true, true},
    {{"seed-coder"}, {seed_coder}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {bailing}},
    {{"deepseek-llm"},
     {"[\r\n]", deepseek_letters, deepseek_marks, R"(\s+$)", deepseek_characters, R"(\p{N}+)"}},
    {{"deepseek-coder"},
     {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", deepseek_characters, digit_cut}},
    {{"deepseek-v3", "hunyuan-dense"},
     {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", deepseek3}},
    {{"falcon"}, {R"([\p{P}$+<=>^~|`]+)", gpt2_cut, three_digits}},
    {{"default", ""}, {R"([\p{P}$+<=>^~|]+)", gpt2_cut, R"(\p{N}+)", three_digits}},
};

} // namespace

const GgufCut* find_cut(std::string_view name) {
  for (const GgufCut& cut : cuts)
    if (std::ranges::find(cut.names, name) != cut.names.end())
      return &cut;
  return nullptr;
}

const GgufCut* find_cut(std::span<const std::string> expressions, bool whole_words) {
  for (const GgufCut& cut : cuts)
    if (cut.whole_words == whole_words && std::equal(cut.expressions.begin(), cut.expressions.end(),
                                                     expressions.begin(), expressions.end()))
      return &cut;
  return nullptr;
}

} // namespace paceline::text
