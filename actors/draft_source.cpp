#include "actors/draft_source.hpp"

#include "actors/option_check.hpp"
#include "actors/other_machines.hpp"
#include "execution/draft_step.hpp"
#include "execution/drafter_step.hpp"
#include "gpu/device_group.hpp"
#include "models/head.hpp"
#include "models/load.hpp"
#include "models/sources.hpp"
#include "speculation/limits.hpp"
#include "speculation/lookup/ngram_drafter.hpp"
#include "speculation/lookup/suffix_drafter.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <mutex>

namespace paceline::actors {
namespace {

// The name in Request::drafter of the caller's Drafter; a look-up has its own name.
constexpr const char* drafter_name = "drafter"; ///< The caller's.

/// Makes a look-up; null if `name` is none.
std::shared_ptr<Drafter> make_lookup(const std::string& name, const EngineOptions& o) {
  if (name == "suffix")
    return std::make_shared<speculation::SuffixDrafter>(o.draft_memory_bytes);
  if (name == "ngram")
    return std::make_shared<speculation::NgramDrafter>();
  return nullptr;
}

/// Returns the name of a device, or of a group's last shard.
Result<gpu::DeviceName> last_name(const gpu::Device& target) {
  const auto shards = target.shards();
  return gpu::parse_device(shards.empty() ? target.name() : shards.back()->name());
}

/// Returns the devices of a draft model. The default is one: beside a target on the CPU, the last
/// of its cores with a thread of its own (a small model gains nothing from more, and the target's
/// team keeps the others to itself); else the target's device, or the last of its devices.
std::vector<std::string> model_devices(const EngineOptions& o, const gpu::Device& target) {
  if (!o.draft_devices.empty())
    return o.draft_devices;
  const auto name = last_name(target);
  if (name && name->kind == gpu::DeviceKind::cpu && !name->cores.empty())
    return {fmt::format("cpu:{}", name->cores.back())};
  return {last_own_device(o)};
}

/// Refuses several devices for a draft that runs on one. what: "a look-up".
Result<void> check_one_device(const EngineOptions& o, const std::string& what) {
  if (o.draft_devices.size() < 2)
    return {};
  return fail(ErrorCode::unsupported,
              fmt::format("EngineOptions::draft_devices has {} devices, and {} drafts on one",
                          o.draft_devices.size(), what),
              "give it one, or a draft model");
}

/// Returns the device of a Drafter, which is code on the host; the engine's own ones take no time
/// beside a simulated target.
std::string drafter_device(const EngineOptions& o, const gpu::Device& target) {
  if (o.draft_devices.empty() && !target.on_host())
    return "cpu";
  const auto name = last_name(target);
  const bool simulated = name && name->kind == gpu::DeviceKind::sim;
  return o.draft_devices.empty() && simulated && !o.custom_drafter
             ? "sim:1us"
             : model_devices(o, target).front();
}

/// Replaces forks by a chain, for a draft that is asked for one continuation only and so drafts no
/// forks.
Lookahead chain_at_most(Lookahead lookahead) {
  return lookahead == Lookahead::none ? lookahead : Lookahead::chain;
}

/// Makes the draft actor's parts, with steps made from `drafting` for whichever device the target
/// is on.
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

/// Returns whether passes of a draft on this device lengthen the target's beside them.
bool share_a_device(const gpu::Device& draft, const LoadedModel& target) {
  return draft.lanes_compete() && (gpu::share_hardware(draft, *target.device) ||
                                   std::ranges::any_of(target.behind, [&](const auto& stage) {
                                     return gpu::share_hardware(draft, stage->device());
                                   }));
}

/// Has the forms of answers draft, too.
void let_forms_draft(EngineParts& parts) {
  parts.scheduler.forms_draft = true;
  parts.telemetry->drafters.emplace_back(scheduling::form_drafter);
}

class NoDraft final : public DraftSource {
public:
  bool exists() const override { return false; }
  std::vector<std::string> names() const override { return {}; }
  void adjust(speculation::PolicyOptions& policy, const LoadedModel& /*target*/) const override {
    policy.mode = SpeculationMode::off;
  }
  Result<void> add_to(EngineParts& /*parts*/, std::size_t /*pages*/,
                      std::size_t /*states*/) const override {
    return {};
  }
};

class ModelDraft final : public DraftSource {
public:
  /// map: null if the vocabulary is the target's.
  ModelDraft(const EngineOptions& options, std::string name, LoadedModel draft,
             std::shared_ptr<const text::VocabularyMap> map)
      : options_(options), name_(std::move(name)), draft_(std::move(draft)), map_(std::move(map)) {}
  /// A head on the target. says: same as models::Head::says.
  ModelDraft(const EngineOptions& options, std::string name, LoadedModel head,
             std::vector<TokenId> says)
      : options_(options), name_(std::move(name)), draft_(std::move(head)), is_head_(true),
        says_(std::move(says)) {}

  /// host: for the rows of q of whoever drafts beside the model.
  void use_host(std::shared_ptr<gpu::Device> host) { host_ = std::move(host); }

  /// Sets the prior of the draft's cost: the time of a step is that of reading weights.
  void adjust(speculation::PolicyOptions& policy, const LoadedModel& target) const override {
    policy.prior_cost_ratio =
        std::clamp(draft_.step_bytes() / std::max(target.step_bytes(), 1.0), 0.005, 1.0);
    policy.block = draft_.model->block_tokens();
    if (policy.block > 0)
      cut_to_block(policy);
    policy.early_ends = policy.block == 0; // A pass less is what an early end spares.
    policy.shares_device = share_a_device(*draft_.device, target);
    const bool keeps_states = target.model->kv_shape(options_.page_tokens).state_bytes > 0;
    if (may_have_trees(options_) && target.is_here() && !keeps_states)
      policy.tree_rows_max = speculation::limits::tree_rows_max;
    if (map_ || is_head_ || state_bytes() > 0)
      policy.lookahead = chain_at_most(policy.lookahead);
  }
  std::size_t page_bytes(int page_tokens) const override {
    return draft_.model->kv_shape(slots(page_tokens)).bytes();
  }
  std::vector<std::string> names() const override { return {model_draft_name}; }
  std::optional<ModelInfo> info() const override { return draft_.info(name_); }

  std::size_t state_bytes() const override {
    return draft_.model->kv_shape(slots(options_.page_tokens)).state_bytes;
  }
  Result<void> add_to(EngineParts& parts, std::size_t pages, std::size_t states) const override {
    return add_to(parts, pages, states, nullptr);
  }
  /// lookup: has turns on its lane; null: none has.
  Result<void> add_to(EngineParts& parts, std::size_t pages, std::size_t states,
                      std::shared_ptr<execution::DrafterHost> lookup) const {
    auto pool = draft_.make_pool(slots(options_.page_tokens), pages, states);
    if (!pool)
      return tl::unexpected(pool.error());
    const execution::DraftStep::Parts drafting{.model = draft_.model,
                                               .device = draft_.device,
                                               .pool = *pool,
                                               .vocabulary = parts.sampler.vocabulary,
                                               .max_num_seqs = options_.max_num_seqs,
                                               .fork_rows = fork_rows_of(options_),
                                               .telemetry = parts.telemetry,
                                               .q_rows = parts.q_rows,
                                               .map = map_,
                                               .says = says_,
                                               .target_pool =
                                                   is_head_ ? parts.target.pool : nullptr,
                                               .lookup = std::move(lookup),
                                               .lookup_device = host_};
    let_forms_draft(parts);
    parts.draft_pool = *pool;
    parts.scheduler.draft_pool = scheduling::target_pool + 1;
    parts.scheduler.draft_reads_features = is_head_;
    parts.draft = draft_parts<execution::DraftStep>(drafting, parts);
    parts.facade.draft_context = draft_.model->info().max_model_len;
    return {};
  }

private:
  /// Makes windows no longer than what one pass writes: nothing drafts what would be behind.
  static void cut_to_block(speculation::PolicyOptions& policy) {
    policy.window_limit = std::min(policy.window_limit, policy.block);
    if (policy.window)
      policy.window = std::min(*policy.window, policy.block);
  }

  /// Returns the slots of a page that holds so many of the target's tokens: the draft's own
  /// vocabulary may need more tokens for them.
  int slots(int page_tokens) const {
    return map_ ? speculation::limits::draft_slots_per_token * page_tokens : page_tokens;
  }

  const EngineOptions& options_;
  std::string name_;
  LoadedModel draft_;
  std::shared_ptr<const text::VocabularyMap> map_;
  bool is_head_ = false;
  std::vector<TokenId> says_;
  std::shared_ptr<gpu::Device> host_;
};

/// A draft by a Drafter, which is the caller's or the engine's own, or by the forms of answers
/// alone.
class HostDraft final : public DraftSource {
public:
  /// drafter: null: only forms draft.
  HostDraft(std::string name, std::shared_ptr<Drafter> drafter, std::shared_ptr<gpu::Device> host)
      : name_(std::move(name)), drafter_(std::move(drafter)), host_(std::move(host)) {}

  std::vector<std::string> names() const override {
    return drafter_ ? std::vector{name_} : std::vector<std::string>();
  }
  void adjust(speculation::PolicyOptions& policy, const LoadedModel& /*target*/) const override {
    policy.lookahead = chain_at_most(policy.lookahead);
    if (!drafter_)
      policy.mode = SpeculationMode::off;
  }
  bool repeats() const override { return false; }

  Result<void> add_to(EngineParts& parts, std::size_t /*pages*/,
                      std::size_t /*states*/) const override {
    const auto host =
        drafter_ ? std::make_shared<execution::DrafterHost>(drafter_, parts.telemetry) : nullptr;
    const execution::DrafterStep::Parts drafting{
        .host = host,
        .device = host_,
        .vocabulary = parts.sampler.vocabulary,
        .telemetry = parts.telemetry,
        .q_rows = drafter_ ? parts.q_rows : speculation::limits::form_q_rows};
    parts.draft = draft_parts<execution::DrafterStep>(drafting, parts);
    if (host)
      parts.draft->is_disabled = [host] { return host->is_disabled(); };
    let_forms_draft(parts);
    parts.sampler.check_draws_every = 0; // The draws are the engine's own.
    return {};
  }

private:
  std::string name_;
  std::shared_ptr<Drafter> drafter_;
  std::shared_ptr<gpu::Device> host_;
};

/// A draft model with a look-up, which has its turns on the model's lane.
class MixedDraft final : public DraftSource {
public:
  MixedDraft(std::string lookup_name, std::shared_ptr<Drafter> lookup,
             std::unique_ptr<ModelDraft> model)
      : lookup_name_(std::move(lookup_name)), lookup_(std::move(lookup)), model_(std::move(model)) {
  }

  void adjust(speculation::PolicyOptions& policy, const LoadedModel& target) const override {
    model_->adjust(policy, target);
    policy.lookup = true;
  }
  bool repeats() const override { return false; }
  std::vector<std::string> names() const override { return {lookup_name_, model_draft_name}; }
  std::size_t page_bytes(int page_tokens) const override { return model_->page_bytes(page_tokens); }
  std::optional<ModelInfo> info() const override { return model_->info(); }

  std::size_t state_bytes() const override { return model_->state_bytes(); }
  Result<void> add_to(EngineParts& parts, std::size_t pages, std::size_t states) const override {
    return model_->add_to(parts, pages, states,
                          std::make_shared<execution::DrafterHost>(lookup_, parts.telemetry));
  }

private:
  std::string lookup_name_;
  std::shared_ptr<Drafter> lookup_;
  std::unique_ptr<ModelDraft> model_;
};

/// Opens the source of drafts without a Drafter: the forms of answers, which need no device that
/// the options could name.
Result<std::unique_ptr<DraftSource>> forms_alone(const ModelLoader& loader,
                                                 const LoadedModel& target) {
  EngineOptions o = loader.options();
  o.draft_devices.clear();
  return loader.open_device(drafter_device(o, target.last_device()), 1)
      .map([](std::shared_ptr<gpu::Device>&& host) -> std::unique_ptr<DraftSource> {
        return std::make_unique<HostDraft>("", nullptr, std::move(host));
      });
}

Result<std::unique_ptr<DraftSource>> host_draft(const ModelLoader& loader,
                                                const LoadedModel& target, const std::string& name,
                                                std::shared_ptr<Drafter> drafter) {
  if (auto one = check_one_device(loader.options(), name); !one)
    return tl::unexpected(one.error());
  const std::string device = drafter_device(loader.options(), target.last_device());
  auto host = loader.open_device(device, 1);
  if (!host)
    return tl::unexpected(host.error());
  if (!(*host)->on_host())
    return fail(ErrorCode::invalid_argument, "no drafter but a model runs on " + device,
                "leave EngineOptions::draft_devices out, or give cpu");
  return std::make_unique<HostDraft>(name, std::move(drafter), *host);
}

Result<std::unique_ptr<ModelDraft>>
model_draft(const ModelLoader& loader, const LoadedModel& target, const std::string& name) {
  auto draft = loader.load(name, "draft", model_devices(loader.options(), target.last_device()));
  if (!draft)
    return tl::unexpected(draft.error());
  auto map = text::map_vocabularies(*target.tokenizer, *draft->tokenizer);
  if (!map)
    return tl::unexpected(map.error());
  auto made = std::make_unique<ModelDraft>(loader.options(), name, std::move(*draft), *map);
  if (*map && made->state_bytes() > 0)
    return fail(ErrorCode::unsupported,
                name + " has recurrent layers, and a vocabulary other than the target's",
                "give a draft of the target's family, or one without recurrent layers");
  return made;
}

/// Opens the device of a draft that shares with the target: the target's own if it has that name.
Result<std::shared_ptr<gpu::Device>> open_near(const ModelLoader& loader, const std::string& name,
                                               const std::shared_ptr<gpu::Device>& target) {
  return loader.open_device(name, 0).map([&](std::shared_ptr<gpu::Device>&& device) {
    return device->name() == target->name() ? target : std::move(device);
  });
}

/// Checks the format of a draft out of the target: a smaller format is all that it has of its own.
Result<void> check_self_format(const EngineOptions& o, const LoadedModel& target,
                               WeightFormat format) {
  if (target.model->info().weights == to_string(format))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("EngineOptions::drafters = self:{0}, and the target's weights are {0}, too",
                    to_string(format)),
        "give a smaller format, or another draft");
  if (o.draft_weights)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("EngineOptions::draft_weights = {} with EngineOptions::drafters = self:{}",
                    to_string(*o.draft_weights), to_string(format)),
        "name the format in EngineOptions::drafters alone");
  return {};
}

/// Returns the device of a draft out of the target: the target's own, or its first shard's, unless
/// EngineOptions::draft_devices is another.
Result<std::shared_ptr<gpu::Device>> self_device(const ModelLoader& loader,
                                                 const std::shared_ptr<gpu::Device>& target) {
  const std::vector<std::string>& names = loader.options().draft_devices;
  if (!names.empty())
    return open_near(loader, names.front(), target);
  const auto shards = target->shards();
  return shards.empty() ? target : shards.front();
}

/// Loads the target once more with its blocks in another format, to draft for it. All other weights
/// are the target's if both use one memory.
Result<std::unique_ptr<ModelDraft>> self_draft(const ModelLoader& loader, const LoadedModel& target,
                                               const std::string& name) {
  const EngineOptions& o = loader.options();
  const auto format = models::self_draft_format(name);
  if (!format)
    return tl::unexpected(format.error());
  LoadedModel draft;
  return check_one_device(o, name)
      .and_then([&] { return check_self_format(o, target, *format); })
      .and_then([&] { return self_device(loader, target.device); })
      .and_then([&](std::shared_ptr<gpu::Device>&& device) {
        models::LoadOptions how = loader.load_options("draft");
        how.blocks = gpu::Quantization{*format, o.weight_scales};
        if (!target.is_divided() && gpu::share_memory(*device, *target.device))
          how.shared = target.model;
        draft.device = std::move(device);
        return models::load_model(*target.source, {draft.device}, how);
      })
      .map([&](models::Stages&& stages) {
        draft.model = std::move(stages.front());
        return std::make_unique<ModelDraft>(o, name, std::move(draft), nullptr);
      });
}

/// Checks that a head can read the values that the target leaves in its memory, wherever that is.
Result<void> check_head_devices(const EngineOptions& o, const gpu::Device& target,
                                const gpu::Device& head) {
  if (!o.reserve_device.empty())
    return fail(ErrorCode::invalid_argument,
                "EngineOptions::reserve_device with a head on the target, which could not follow "
                "it there",
                "leave it out, or give another draft");
  if (!gpu::share_memory(head, target))
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::draft_devices is {}, where a head cannot read what the "
                            "target leaves on {}",
                            head.name(), target.name()),
                "leave EngineOptions::draft_devices out");
  return {};
}

Result<std::unique_ptr<ModelDraft>> head_draft(const ModelLoader& loader, LoadedModel& target,
                                               const std::string& name) {
  const EngineOptions& o = loader.options();
  if (target.is_divided())
    return fail(ErrorCode::unsupported,
                fmt::format("a head reads a target on one device, and this one is in {}",
                            target.in_stages() ? "stages" : "shards"),
                "give another draft, or one device");
  if (auto one = check_one_device(o, name); !one)
    return tl::unexpected(one.error());
  LoadedModel draft;
  return open_near(loader, model_devices(o, *target.device).front(), target.device)
      .and_then([&](std::shared_ptr<gpu::Device>&& device) {
        draft.device = std::move(device);
        return check_head_devices(o, *target.device, *draft.device);
      })
      .and_then([&] {
        return models::load_head(name, *target.source, target.model, draft.device,
                                 loader.load_options("draft"));
      })
      .map([&](models::Head&& head) {
        target.model = std::move(head.target);
        draft.model = std::move(head.model);
        return std::make_unique<ModelDraft>(o, name, std::move(draft), std::move(head.says));
      });
}

Result<std::unique_ptr<ModelDraft>> any_model_draft(const ModelLoader& loader, LoadedModel& target,
                                                    const std::string& name) {
  auto draft = models::is_self_draft(name)   ? self_draft(loader, target, name)
               : models::is_head_draft(name) ? head_draft(loader, target, name)
                                             : model_draft(loader, target, name);
  if (!draft)
    return draft;
  auto host = loader.open_device("cpu", 1);
  if (!host)
    return tl::unexpected(host.error());
  (*draft)->use_host(std::move(*host));
  return draft;
}

Result<std::unique_ptr<DraftSource>> mixed_draft(const ModelLoader& loader, LoadedModel& target,
                                                 const std::string& lookup,
                                                 const std::string& name) {
  auto model = any_model_draft(loader, target, name);
  if (!model)
    return tl::unexpected(model.error());
  return std::make_unique<MixedDraft>(lookup, make_lookup(lookup, loader.options()),
                                      std::move(*model));
}

} // namespace

bool may_have_trees(const EngineOptions& o) {
  const bool waits =
      o.speculation == SpeculationMode::automatic || o.speculation == SpeculationMode::sync;
  return waits && o.tree_rows != 0 && o.prefill_chunk > sampling::limits::window_max;
}

int fork_rows_of(const EngineOptions& o) {
  const bool forks = o.lookahead == Lookahead::automatic || o.lookahead == Lookahead::fork;
  const bool ahead =
      o.speculation == SpeculationMode::automatic || o.speculation == SpeculationMode::overlap;
  if (!(forks && ahead) && !may_have_trees(o))
    return 0;
  return std::min(o.fork_rows * o.max_num_seqs, speculation::limits::fork_rows_max);
}

Result<std::unique_ptr<DraftSource>> choose_draft_source(const ModelLoader& loader,
                                                         LoadedModel& target, int max_model_len,
                                                         caf::actor_system* system) {
  const EngineOptions& o = loader.options();
  if (drafts_on_node(o))
    return loader.machines()->open_draft(loader, target, max_model_len, *system);
  if (o.custom_drafter)
    return host_draft(loader, target, drafter_name, o.custom_drafter);
  const auto names = drafter_names(o);
  if (o.speculation == SpeculationMode::off)
    return std::make_unique<NoDraft>();
  if (names.empty())
    return forms_alone(loader, target);
  if (names.size() == 2)
    return mixed_draft(loader, target, names.front(), names.back());
  const std::string& name = names.back();
  if (auto lookup = make_lookup(name, o))
    return host_draft(loader, target, name, std::move(lookup));
  return any_model_draft(loader, target, name);
}

} // namespace paceline::actors
