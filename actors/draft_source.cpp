#include "actors/draft_source.hpp"

#include "execution/draft_step.hpp"
#include "execution/drafter_step.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>

namespace paceline::actors {
namespace {

/// Where the draft runs unless told: beside a target on the CPU, on the last of its cores with a
/// thread of its own (a small model gains nothing from more, and the target's team keeps the
/// others to itself); else where the target is. A caller's drafter is code of the host's.
std::string draft_device(const EngineOptions& o, const gpu::Device& target) {
  if (!o.draft_device.empty())
    return o.draft_device;
  const auto name = gpu::parse_device(target.name());
  if (name && name->kind == gpu::DeviceKind::cpu && !name->cores.empty())
    return fmt::format("cpu:{}", name->cores.back());
  return o.drafter && !target.on_host() ? "cpu" : o.device;
}

/// Nobody who is asked for one continuation drafts forks.
Lookahead chain_at_most(Lookahead lookahead) {
  return lookahead == Lookahead::none ? lookahead : Lookahead::chain;
}

/// The draft actor's parts, with steps made from `drafting` for whichever device the target is on.
template <class Step>
DraftModelParts draft_parts(const typename Step::Parts& drafting, const EngineParts& parts) {
  DraftModelParts out;
  out.device = drafting.device;
  out.make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                             std::shared_ptr<gpu::Device> reader) {
    auto all = drafting;
    all.reader = std::move(reader);
    return std::make_shared<Step>(std::move(all), std::move(queue));
  };
  out.closer = parts.target.closer;
  out.telemetry = parts.telemetry;
  return out;
}

class NoDraft final : public DraftSource {
public:
  bool exists() const override { return false; }
  void adjust(speculation::PolicyOptions& policy, const LoadedModel& /*target*/) const override {
    policy.mode = SpeculationMode::off;
  }
  Result<void> add_to(EngineParts& /*parts*/, std::size_t /*pages*/) const override { return {}; }
};

class ModelDraft final : public DraftSource {
public:
  ModelDraft(const EngineOptions& options, LoadedModel draft)
      : options_(options), draft_(std::move(draft)) {}

  /// Reading weights is what a step costs.
  void adjust(speculation::PolicyOptions& policy, const LoadedModel& target) const override {
    const auto bytes = std::max<std::size_t>(target.model->info().weight_bytes, 1);
    policy.prior_cost_ratio =
        std::clamp(double(draft_.model->info().weight_bytes) / double(bytes), 0.005, 1.0);
  }
  std::size_t page_bytes(int page_tokens) const override {
    return draft_.model->kv_shape(page_tokens).page_bytes();
  }
  std::optional<ModelInfo> info() const override { return draft_.info(options_.draft); }

  Result<void> add_to(EngineParts& parts, std::size_t pages) const override {
    auto pool = draft_.make_pool(options_.page_tokens, pages);
    if (!pool)
      return tl::unexpected(pool.error());
    execution::DraftStep::Parts drafting;
    drafting.model = draft_.model;
    drafting.device = draft_.device;
    drafting.pool = *pool;
    drafting.vocabulary = parts.sampler.vocabulary;
    drafting.max_num_seqs = options_.max_num_seqs;
    drafting.fork_rows = fork_rows_of(options_);
    drafting.telemetry = parts.telemetry;
    parts.draft_pool = *pool;
    parts.draft = draft_parts<execution::DraftStep>(drafting, parts);
    parts.facade.draft_context = draft_.model->info().max_model_len;
    return {};
  }

private:
  const EngineOptions& options_;
  LoadedModel draft_;
};

class CallerDraft final : public DraftSource {
public:
  CallerDraft(std::shared_ptr<Drafter> drafter, std::shared_ptr<gpu::Device> host)
      : drafter_(std::move(drafter)), host_(std::move(host)) {}

  void adjust(speculation::PolicyOptions& policy, const LoadedModel& /*target*/) const override {
    policy.lookahead = chain_at_most(policy.lookahead);
  }

  Result<void> add_to(EngineParts& parts, std::size_t /*pages*/) const override {
    execution::DrafterStep::Parts drafting;
    drafting.drafter = drafter_;
    drafting.device = host_;
    drafting.vocabulary = parts.sampler.vocabulary;
    drafting.telemetry = parts.telemetry;
    parts.draft = draft_parts<execution::DrafterStep>(drafting, parts);
    parts.sampler.check_draws_every = 0; // a caller's draws cannot be repeated
    return {};
  }

private:
  std::shared_ptr<Drafter> drafter_;
  std::shared_ptr<gpu::Device> host_;
};

Result<std::unique_ptr<DraftSource>> caller_draft(const ModelLoader& loader,
                                                  const std::string& device) {
  auto host = loader.open_device(device, 1);
  if (!host)
    return tl::unexpected(host.error());
  if (!(*host)->on_host())
    return fail(ErrorCode::invalid_argument, "a caller's drafter cannot run on " + device,
                "leave EngineOptions::draft_device out, or give cpu");
  return std::make_unique<CallerDraft>(loader.options().drafter, *host);
}

Result<std::unique_ptr<DraftSource>>
model_draft(const ModelLoader& loader, const LoadedModel& target, const std::string& device) {
  auto draft = loader.load(loader.options().draft, "draft", device, 0);
  if (!draft)
    return tl::unexpected(draft.error());
  if (auto same = text::check_same_vocabulary(*target.tokenizer, *draft->tokenizer); !same)
    return tl::unexpected(same.error());
  return std::make_unique<ModelDraft>(loader.options(), std::move(*draft));
}

} // namespace

int fork_rows_of(const EngineOptions& o) {
  const bool forks = o.lookahead == Lookahead::automatic || o.lookahead == Lookahead::fork;
  const bool ahead =
      o.speculation == SpeculationMode::automatic || o.speculation == SpeculationMode::overlap;
  return forks && ahead ? o.fork_rows : 0;
}

Result<std::unique_ptr<DraftSource>> choose_draft_source(const ModelLoader& loader,
                                                         const LoadedModel& target) {
  const EngineOptions& o = loader.options();
  const std::string device = draft_device(o, *target.device);
  if (o.drafter)
    return caller_draft(loader, device);
  if (o.draft.empty() || o.speculation == SpeculationMode::off)
    return std::make_unique<NoDraft>();
  return model_draft(loader, target, device);
}

} // namespace paceline::actors
