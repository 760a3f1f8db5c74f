#include "models/checkpoint/chat_template_file.hpp"
#include "models/load_options.hpp"
#include "models/stages.hpp"
#include "models/synthetic/scripted.hpp"

namespace paceline::models {
namespace {

class ScriptedSource final : public CheckpointSource {
public:
  using CheckpointSource::CheckpointSource;

  Result<ModelConfig> config() const override { return no_files(); }
  Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& /*config*/) const override {
    return no_files();
  }
  Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const override {
    return make_scripted_tokenizer(location());
  }
  Result<text::ChatTemplate> chat_template(const std::string& opening) const override {
    return text::ChatTemplate::plain(opening);
  }
  Result<text::ChatTemplate> chat_template_from(const std::string& file) const override {
    return read_chat_template(file, {});
  }
  Result<GenerationDefaults> generation_defaults() const override { return GenerationDefaults(); }

private:
  tl::unexpected<Error> no_files() const {
    return fail(ErrorCode::unsupported, location() + " is a rule, not a checkpoint",
                "give the folder of a checkpoint");
  }
};

Result<void> check(const std::string& name, int context, const LoadOptions& options) {
  if (options.blocks || options.head || options.int8_rows())
    return fail(ErrorCode::unsupported, name + " has no weights to quantize or to multiply",
                "leave EngineOptions::weights, draft_weights, head_weights, activations and "
                "drafts of self: out");
  if (options.int8_cache())
    return fail(ErrorCode::unsupported, name + " has no keys and values to keep in 8 bits",
                "leave EngineOptions::kv_cache_dtype and draft_kv_cache_dtype out");
  if (!options.stage_layers.empty())
    return fail(ErrorCode::unsupported, name + " has no layers to divide",
                "leave EngineOptions::stage_layers out");
  return check_context(name, context, options);
}

} // namespace

Result<std::vector<std::shared_ptr<const Model>>>
load_scripted(const std::string& name, std::span<const std::shared_ptr<gpu::Device>> devices,
              const LoadOptions& options) {
  return parse_scripted(name).and_then([&](const ScriptedOptions& script) {
    return check(name, script.context, options).and_then([&] {
      return make_scripted_stages(script, devices);
    });
  });
}

Result<std::shared_ptr<const CheckpointSource>> make_scripted_source(const std::string& name) {
  return parse_scripted(name).map(
      [&](const ScriptedOptions&) -> std::shared_ptr<const CheckpointSource> {
        return std::make_shared<const ScriptedSource>(name);
      });
}

} // namespace paceline::models
