#include "models/synthetic/scripted.hpp"

namespace paceline::models {
namespace {

class ScriptedSource final : public CheckpointSource {
public:
  ScriptedSource(std::string name, ScriptedOptions options)
      : CheckpointSource(std::move(name)), options_(options) {}

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
  Result<GenerationDefaults> generation_defaults() const override { return GenerationDefaults(); }
  Result<std::shared_ptr<const Model>> load(std::shared_ptr<gpu::Device> device,
                                            const LoadOptions& options) const override {
    return check(options).and_then([&] { return make_scripted(options_, std::move(device)); });
  }
  Result<std::vector<std::shared_ptr<const Model>>>
  load_stages(std::span<const std::shared_ptr<gpu::Device>> devices,
              const LoadOptions& options) const override {
    return check(options).and_then([&] { return make_scripted_stages(options_, devices); });
  }

private:
  Result<void> check(const LoadOptions& options) const {
    if (options.blocks || options.head)
      return fail(
          ErrorCode::unsupported, location() + " has no weights to quantize",
          "leave EngineOptions::weights, draft_weights, head_weights and drafts of self: out");
    if (!options.stage_layers.empty())
      return fail(ErrorCode::unsupported, location() + " has no layers to divide",
                  "leave EngineOptions::stage_layers out");
    return check_context(location(), options_.context, options);
  }
  tl::unexpected<Error> no_files() const {
    return fail(ErrorCode::unsupported, location() + " is a rule, not a checkpoint",
                "give the folder of a checkpoint");
  }

  ScriptedOptions options_;
};

} // namespace

Result<std::shared_ptr<const CheckpointSource>> make_scripted_source(const std::string& name) {
  return parse_scripted(name).map(
      [&](const ScriptedOptions& options) -> std::shared_ptr<const CheckpointSource> {
        return std::make_shared<const ScriptedSource>(name, options);
      });
}

} // namespace paceline::models
