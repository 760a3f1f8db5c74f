#include "models/checkpoint/gguf_of_folder.hpp"

#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/folder_as_gguf.hpp"
#include "models/checkpoint/gguf_architecture_keys.hpp"
#include "models/checkpoint/gguf_difference.hpp"
#include "models/checkpoint/gguf_keys.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "models/families.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace {

/// Families that files give the name of another (GgufArchitecture::family).
constexpr std::pair<const char*, const char*> written_families[] = {
    {"MistralForCausalLM", "llama"},
    {"MixtralForCausalLM", "llama"},
    {"Ministral3ForCausalLM", "mistral3"},
    {"Mistral3ForConditionalGeneration", "mistral3"},
    {"Qwen3_5ForConditionalGeneration", "qwen35"},
    {"Qwen3_5MoeForConditionalGeneration", "qwen35moe"},
    {"Gemma3ForConditionalGeneration", "gemma3"},
    {"Gemma4ForConditionalGeneration", "gemma4"},
    {"GraniteMoeForCausalLM", "granitemoe"},
    {"Olmo3ForCausalLM", "olmo2"},
};

/// Checks that a file whose header is written says what config.json says.
Result<void> check_says(const std::string& folder, const ModelConfig& config,
                        const std::string& file) {
  return GgufSource(file).config().and_then([&](const ModelConfig& written) -> Result<void> {
    const std::string what = difference(config, written);
    if (what.empty())
      return {};
    return fail(ErrorCode::unsupported,
                fmt::format("{}: GGUF files have no word for the {} of this {}",
                            text::shown_path(folder), what, config.architecture),
                into_folder_hint);
  });
}

/// Returns what files call the model's family; an error: they have no name for it, or models of it
/// are not written. Granite 4 without recurrent layers is Granite 3 there, and Nemotron-H has
/// another name where it has mixtures.
Result<std::string> architecture_of(const std::string& folder, const ModelConfig& config) {
  std::string_view name;
  for (const GgufArchitecture& known : known_gguf_architectures())
    if (config.architecture == known.family && name.empty())
      name = known.name;
  for (const auto& [family, written] : written_families)
    if (config.architecture == family)
      name = written;
  if (name.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("{}: a {} in a folder is not written as a GGUF file",
                            text::shown_path(folder), config.architecture),
                "give a GGUF file of it, or a folder of " + gguf_architecture_names());
  if (name == "nemotron_h" && config.mixture)
    return "nemotron_h_moe";
  if (name == "granitehybrid" && !config.has_states())
    return config.mixture ? "granitemoe" : "granite";
  return std::string(name);
}

/// Refuses what is quantized, but for stacks of experts in MXFP4, which stay as they are.
Result<void> check_plain(const std::string& folder, const ModelConfig& config) {
  const bool stacks = family_of(config.architecture).tensors.order == ExpertOrder::in_turn;
  if (config.quantization.method.empty() || (stacks && config.quantization.method == "mxfp4"))
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is quantized already (by {})", text::shown_path(folder),
                          config.quantization.method),
              "give the original, whose weights are BF16, F16 or F32");
}

/// Adds the tensors that are made of config.json.
Result<void> add_rotation_tables(GgufContents& to, const std::string& folder,
                                 const ModelConfig& config) {
  return gguf_rotation_tables(folder, config).map([&](std::vector<GgufTable>&& tables) {
    for (GgufTable& table : tables) {
      const auto kept = std::make_shared<const std::vector<float>>(std::move(table.values));
      to.files.push_back(kept);
      to.tensors.push_back({std::move(table.name),
                            {std::int64_t(kept->size())},
                            gpu::DType::f32,
                            {std::as_bytes(std::span(*kept))}});
    }
  });
}

} // namespace

Result<GgufContents> gguf_of_folder(const std::string& folder) {
  const auto config = FolderSource(folder).config();
  if (!config)
    return tl::unexpected(config.error());
  const auto name =
      check_plain(folder, *config).and_then([&] { return architecture_of(folder, *config); });
  if (!name)
    return tl::unexpected(name.error());
  auto out = folder_as_gguf(folder, *config, *find_gguf_architecture(*name));
  if (!out)
    return out;
  auto metadata = gguf_metadata_of(folder, *config, *name);
  if (!metadata)
    return tl::unexpected(metadata.error());
  out->metadata = std::move(*metadata);
  out->check = [folder, own = *config](const std::string& file) {
    return check_says(folder, own, file);
  };
  return add_rotation_tables(*out, folder, *config).map([&] { return std::move(*out); });
}

} // namespace paceline::models
