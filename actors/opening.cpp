#include "actors/opening.hpp"

#include "actors/draft_source.hpp"
#include "actors/limits.hpp"
#include "actors/model_loader.hpp"
#include "actors/option_check.hpp"
#include "actors/other_machines.hpp"
#include "actors/tokenizer.hpp"
#include "execution/step_prior.hpp"
#include "sampling/limits.hpp"
#include "scheduling/kv_budget.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::actors {
namespace {

int context_of(const EngineOptions& o, const LoadedModel& target) {
  const int trained = target.model->info().max_model_len;
  return o.max_model_len > 0 ? std::min(o.max_model_len, trained)
                             : std::min(trained, models::limits::positions_default);
}

/// Returns how many rows of logits a step may ask for: every sequence with the longest window, and
/// the rows beside one, within memory.
int logit_rows_of(const EngineOptions& o, const LoadedModel& target) {
  constexpr std::size_t memory = 256u << 20;
  const std::size_t row = sizeof(float) * std::size_t(target.model->vocabulary());
  const int beside = may_have_trees(o) ? speculation::limits::tree_rows_max : 0;
  const int most = o.max_num_seqs * (sampling::limits::window_max + 1) + beside;
  return std::clamp(int(memory / row), o.max_num_seqs, most);
}

speculation::PolicyOptions policy_of(const EngineOptions& o) {
  speculation::PolicyOptions policy;
  policy.mode = o.speculation;
  policy.window = o.window;
  policy.lookahead = o.lookahead;
  policy.fork_rows = o.fork_rows;
  policy.fork_rows_all = fork_rows_of(o);
  policy.tree_rows = o.tree_rows;
  return policy;
}

int vocabulary_of(const LoadedModel& target) {
  return std::min(target.tokenizer->vocabulary(), target.model->vocabulary());
}

constexpr scheduling::Pool draft_pool = 1; // It follows the target's, if the draft has pages.

/// Builds a context step by step; each step fills in its part from the results of those before it.
class ContextBuilder {
public:
  ContextBuilder(const EngineOptions& options, const std::shared_ptr<base::Timekeeper>& time,
                 const std::shared_ptr<base::Trace>& trace, const OtherMachines* machines,
                 caf::actor_system* system)
      : options_(options), loader_(options_, time, trace, machines), system_(system) {}

  Result<EngineContext> build() {
    return check_options(options_)
        .map([this] { options_.drafters = drafter_names(options_); })
        .and_then([this] { return check_machines(); })
        .and_then([this] { return load_target(); })
        .and_then([this] { return open_stages_elsewhere(); })
        .and_then([this] { return choose_draft(); })
        .and_then([this] { return read_chat_template(); })
        .and_then([this] { return read_defaults(); })
        .and_then([this] { return configure_target(); })
        .map([this] { configure_others(); })
        .and_then([this] { return check_trees(); })
        .and_then([this] { return add_draft(); })
        .and_then([this] { return prepare_standby(); })
        .map([this] { return std::move(context_); });
  }

private:
  Result<void> check_machines() const;
  Result<void> load_target();
  Result<void> open_stages_elsewhere();
  Result<void> choose_draft();
  Result<void> read_chat_template();
  Result<void> read_defaults();
  Result<void> configure_target();
  void configure_others();
  Result<void> check_trees() const;
  std::size_t stages_with_layers() const;
  SchedulerParts scheduler_parts() const;
  Result<void> add_draft();
  Result<void> prepare_standby();
  Result<std::size_t> page_memory(const LoadedModel& target) const;
  std::size_t draft_bytes() const;
  Result<scheduling::KvBudget> budget_for(const LoadedModel& target) const;
  std::vector<scheduling::PageShare> target_shares(const LoadedModel& target) const;
  Result<TargetStage> further_stage(const std::shared_ptr<const models::Model>& model) const;
  Result<TargetStage> stage_elsewhere(const StageThere& there) const;
  ModelInfo target_info(const LoadedModel& target) const;

  EngineOptions options_; ///< With the names of drafts resolved.
  ModelLoader loader_;
  caf::actor_system* system_;
  LoadedModel target_;
  std::vector<StageThere> stages_there_; ///< The target's, in their order.
  std::unique_ptr<DraftSource> draft_;
  scheduling::KvBudget budget_;
  EngineContext context_;
};

Result<void> ContextBuilder::check_machines() const {
  if (!needs_other_machines(options_))
    return {};
  if (!loader_.machines())
    return fail(ErrorCode::unsupported, "a device is another machine's, and none is known here",
                "give devices of this machine");
  return loader_.machines()->check(options_);
}

Result<void> ContextBuilder::load_target() {
  auto target = loader_.load(options_.target, "target", options_.devices);
  if (!target)
    return tl::unexpected(target.error());
  const int multiple = target->model->page_tokens_multiple();
  if (options_.page_tokens % multiple != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::page_tokens is {}", options_.page_tokens),
                fmt::format("give a multiple of {}", multiple));
  target_ = std::move(*target);
  return {};
}

/// Opens the stages on other machines. They are asked for pages and models before anything here is
/// divided.
Result<void> ContextBuilder::open_stages_elsewhere() {
  for (auto& stage : target_.behind) {
    if (!stage->device().elsewhere())
      continue;
    auto there = loader_.machines()->open_stage(loader_, target_, *stage, *system_);
    if (!there)
      return tl::unexpected(there.error());
    stage = there->model;
    stages_there_.push_back(std::move(*there));
  }
  context_.tokenizer = target_.tokenizer;
  context_.target = target_info(target_);
  context_.max_model_len = context_of(options_, target_);
  return {};
}

ModelInfo ContextBuilder::target_info(const LoadedModel& target) const {
  ModelInfo info = target.info(options_.target);
  info.prefill = options_.prefill;
  return info;
}

Result<void> ContextBuilder::choose_draft() {
  return choose_draft_source(loader_, target_, context_.max_model_len, system_)
      .map([this](std::unique_ptr<DraftSource>&& source) {
        draft_ = std::move(source);
        context_.draft = draft_->info();
        context_.draft_repeats = draft_->repeats();
        context_.drafters = draft_->names();
      });
}

/// Reads the chat template, so that one that cannot be read is found now, and not at the first
/// conversation.
Result<void> ContextBuilder::read_chat_template() {
  const models::CheckpointSource& source = *target_.source;
  auto chat = options_.chat_template.empty() ? chat_template_of(source, *target_.tokenizer)
                                             : source.chat_template_from(options_.chat_template);
  if (!chat)
    return fail(chat.error().code, chat.error().message,
                "mend it, or give another file as EngineOptions::chat_template");
  context_.chat = std::move(*chat);
  return {};
}

/// Reads the checkpoint's advice on its use.
Result<void> ContextBuilder::read_defaults() {
  return target_.source->generation_defaults().map(
      [this](const models::GenerationDefaults& defaults) {
        context_.defaults = defaults;
        context_.target.not_obeyed = defaults.not_obeyed;
      });
}

/// Returns how much of a page of the target's each memory has. Devices on the host share one
/// memory. A node may give all the bytes that it reports, while only a quarter would be taken here;
/// hence the factor 4.
std::vector<scheduling::PageShare> ContextBuilder::target_shares(const LoadedModel& target) const {
  std::vector<scheduling::PageShare> shares;
  std::optional<std::size_t> host;
  const auto add = [&](const models::Model& model) {
    const gpu::Device& device = model.device();
    const std::size_t bytes = model.kv_shape(options_.page_tokens).bytes();
    if (device.elsewhere() || bytes == 0)
      return;
    if (device.on_host() && host)
      shares[*host].bytes += bytes;
    else
      shares.push_back({device.memory().available, bytes});
    if (device.on_host() && !host)
      host = shares.size() - 1;
  };
  add(*target.model);
  for (const auto& stage : target.behind)
    add(*stage);
  for (const StageThere& stage : stages_there_)
    shares.push_back({4 * stage.kv_bytes, stage.model->kv_shape(options_.page_tokens).bytes()});
  return shares;
}

/// Returns the memory that drafts take besides pages.
std::size_t ContextBuilder::draft_bytes() const {
  const auto draft = draft_->info();
  const bool suffix = std::ranges::count(drafter_names(options_), "suffix") > 0;
  return (draft ? draft->weight_bytes - draft->shared_bytes : 0) +
         (suffix ? options_.draft_memory_bytes : 0);
}

/// Returns the memory for pages and rows of q, within EngineOptions::memory_bytes of each device.
Result<std::size_t> ContextBuilder::page_memory(const LoadedModel& target) const {
  scheduling::MemoryDemand demand;
  demand.memory = options_.memory_bytes;
  demand.kv_memory = options_.kv_memory_bytes;
  const auto add = [&](const models::Model& model) { // Shards have equal parts of a model.
    const auto shards = std::size_t(model.info().shards);
    const std::size_t page = model.kv_shape(options_.page_tokens).bytes() / shards;
    if (page == 0) // A head behind others' layers is on a device that has some layers of its own.
      demand.devices.front().taken += model.info().weight_bytes;
    else if (!model.device().elsewhere())
      demand.devices.insert(demand.devices.end(), shards,
                            {model.info().weight_bytes / shards, page});
  };
  add(*target.model);
  for (const auto& stage : target.behind)
    add(*stage);
  demand.devices.back().taken += draft_bytes();
  demand.devices.back().page_bytes += draft_->page_bytes(options_.page_tokens);
  return scheduling::page_memory(demand);
}

/// Divides one budget among the pages of all pools and the rows of q.
Result<scheduling::KvBudget> ContextBuilder::budget_for(const LoadedModel& target) const {
  const auto memory = page_memory(target);
  if (!memory)
    return tl::unexpected(memory.error());
  scheduling::KvDemand demand;
  demand.memory = *memory;
  const auto shares = target_shares(target);
  demand.available = target.in_stages() ? scheduling::room_for_pages(shares) : shares[0].room;
  demand.max_model_len = context_.max_model_len;
  demand.max_num_seqs = options_.max_num_seqs;
  demand.prefill_chunk = options_.prefill_chunk;
  demand.stages = int(target.behind.size()) + 1;
  demand.page_tokens = options_.page_tokens;
  if (draft_->exists())
    demand.q_row_bytes =
        draft_->names().size() * sizeof(float) * std::size_t(vocabulary_of(target));
  const speculation::PolicyOptions policy = policy_of(options_);
  const auto window = std::size_t(policy.window.value_or(policy.window_limit)) + 1;
  demand.q_rows = speculation::limits::windows_held * window;
  // The rows suffice for the forks of one sequence. More forks take rows that sequences leave free.
  const auto fork_rows = std::size_t(std::min(options_.fork_rows, fork_rows_of(options_)));
  const std::size_t in_flight = 2 * target.behind.size(); // These are in stages, or given up there.
  const std::size_t fork = // It has all windows in flight, within the longest window.
      std::max(window, std::min(window * (1 + target.behind.size()),
                                std::size_t(sampling::limits::window_max) + 1));
  demand.fork_q_rows = fork_rows * fork + in_flight * window;
  std::size_t page_bytes = 0;
  for (const scheduling::PageShare& share : shares)
    page_bytes += share.bytes;
  demand.pools = {{page_bytes, target.model->window()}};
  demand.state_bytes = target.model->kv_shape(options_.page_tokens).state_bytes;
  for (const auto& stage : target.behind)
    demand.state_bytes += stage->kv_shape(options_.page_tokens).state_bytes;
  demand.state_bytes += draft_->state_bytes();
  if (const std::size_t bytes = draft_->page_bytes(options_.page_tokens); bytes > 0)
    demand.pools.push_back(
        {bytes, 0, fork_rows * std::size_t(speculation::limits::pages_per_fork_row)});
  return scheduling::kv_budget(demand);
}

Result<void> ContextBuilder::configure_target() {
  const auto budget = budget_for(target_);
  if (!budget)
    return tl::unexpected(budget.error());
  budget_ = *budget;
  auto pool = target_.make_pool(options_.page_tokens, budget_.pages[scheduling::target_pool],
                                budget_.states);
  if (!pool)
    return tl::unexpected(pool.error());
  context_.closer = std::make_shared<execution::LaneCloser>(options_.virtual_time);
  const auto telemetry = std::make_shared<base::Telemetry>();
  telemetry->trace = loader_.trace();
  telemetry->time = loader_.time();
  telemetry->drafters = context_.drafters;
  telemetry->log = base::Log(options_.log);
  context_.parts.telemetry = telemetry;
  TargetModelParts& target = context_.parts.target;
  target.model = target_.model;
  target.device = target_.device;
  target.pool = *pool;
  target.full_length = budget_.full_length;
  target.max_logit_rows = logit_rows_of(options_, target_);
  target.max_rows = options_.prefill_chunk + target.max_logit_rows;
  target.closer = context_.closer;
  target.telemetry = telemetry;
  auto there = stages_there_.begin();
  for (const auto& model : target_.behind) {
    Result<TargetStage> stage =
        model->device().elsewhere() ? stage_elsewhere(*there++) : further_stage(model);
    if (!stage)
      return tl::unexpected(stage.error());
    target.behind.push_back(std::move(*stage));
  }
  return {};
}

/// Returns a stage on another machine, whose pages have the numbers of the first stage's.
Result<TargetStage> ContextBuilder::stage_elsewhere(const StageThere& there) const {
  const std::size_t pages = budget_.pages[scheduling::target_pool];
  const std::size_t page = there.model->kv_shape(options_.page_tokens).bytes();
  if (pages > there.kv_bytes / page)
    return fail(ErrorCode::out_of_memory,
                fmt::format("{} gives an engine {} pages of {} bytes, and {} are wanted",
                            there.name, there.kv_bytes / page, page, pages),
                "start the node with more --kv-memory, or give EngineOptions::kv_memory_bytes or "
                "max_model_len less");
  return TargetStage{there.model, std::shared_ptr<gpu::Device>(there.model, &there.model->device()),
                     context_.parts.target.pool, there.make_proxy(pages)};
}

/// Returns a further stage on this machine, with its part of all pages; without layers it has none.
Result<TargetStage>
ContextBuilder::further_stage(const std::shared_ptr<const models::Model>& model) const {
  const std::shared_ptr<gpu::Device> device(model, &model->device());
  if (model->kv_shape(options_.page_tokens).bytes() == 0)
    return TargetStage{model, device, context_.parts.target.pool};
  return gpu::KvPool::create(*device, model->kv_shape(options_.page_tokens),
                             budget_.pages[scheduling::target_pool], budget_.states)
      .map([&](auto&& pool) {
        return TargetStage{model, device, std::move(pool)};
      });
}

void ContextBuilder::configure_others() {
  EngineParts& parts = context_.parts;
  parts.faults = options_.faults;
  parts.q_rows = budget_.q_rows;
  parts.scheduler = scheduler_parts();
  parts.facade.tokenizer = target_.tokenizer;
  context_.max_open = options_.max_waiting + options_.max_num_seqs;
  parts.facade.telemetry = parts.telemetry;
  parts.sampler.vocabulary = vocabulary_of(target_);
  context_.constraints = std::make_shared<constraints::Compiler>(constraints::Vocabulary{
      context_.tokenizer, vocabulary_of(target_), context_.defaults.end_of_text});
  parts.sampler.telemetry = parts.telemetry;
}

/// Refuses rows for token trees where nothing makes any.
Result<void> ContextBuilder::check_trees() const {
  const speculation::PolicyOptions& policy = context_.parts.scheduler.policy;
  if (options_.tree_rows.value_or(0) == 0 || policy.mode == SpeculationMode::off ||
      policy.tree_rows_max > 0)
    return {};
  return fail(
      ErrorCode::unsupported,
      fmt::format("EngineOptions::tree_rows is {}, where no windows have rows beside them",
                  *options_.tree_rows),
      "leave it out: token trees are of a draft model that is waited for, of a target on this "
      "machine and without recurrent layers");
}

/// Returns how many stages need a batch of their own. A head alone is on a device that has layers
/// as well, and no batch is made for it: with fewer sequences in each batch, the other stages would
/// read their weights more often.
std::size_t ContextBuilder::stages_with_layers() const {
  const TargetModelParts& target = context_.parts.target;
  const bool head_alone = target.last_stage().model->kv_shape(options_.page_tokens).bytes() == 0;
  return target.stages() - head_alone;
}

SchedulerParts ContextBuilder::scheduler_parts() const {
  SchedulerParts parts;
  parts.policy = policy_of(options_);
  draft_->adjust(parts.policy, target_);
  parts.has_draft = draft_->exists();
  parts.drafters = context_.drafters;
  parts.max_model_len = context_.max_model_len;
  parts.max_num_seqs = options_.max_num_seqs;
  parts.stages = int(stages_with_layers());
  parts.scheduling = options_.scheduling;
  parts.batching = options_.batching;
  parts.prefill_chunk = options_.prefill_chunk;
  parts.row_budget = options_.row_budget;
  parts.time_between_tokens = options_.time_between_tokens;
  parts.fast_chunk = options_.prefill == Prefill::fast ? gpu::fast_chunk : 0;
  parts.attention_window = target_.model->window();
  parts.logit_rows = context_.parts.target.max_logit_rows;
  if (!target_.is_divided() && !options_.virtual_time)
    parts.step_prior = execution::measure_step_prior(*target_.device, *target_.model);
  parts.telemetry = context_.parts.telemetry;
  parts.faults = options_.faults;
  if (!stages_there_.empty())
    parts.stage_wait = options_.faults.stage_patience;
  return parts;
}

Result<void> ContextBuilder::add_draft() {
  const auto& pages = budget_.pages;
  return draft_->add_to(context_.parts, pages.size() > draft_pool ? pages[draft_pool] : 0,
                        budget_.states);
}

/// Loads the target once more, for the device where it goes on when its own keeps failing. Its pool
/// has no more pages than the first one's.
Result<void> ContextBuilder::prepare_standby() {
  if (options_.reserve_device.empty() || !stages_there_.empty()) // It is then a stage's reserve.
    return {};
  const TargetModelParts& first = context_.parts.target;
  auto loaded = loader_.load(options_.target, "target", {options_.reserve_device});
  if (!loaded)
    return tl::unexpected(loaded.error());
  if (loaded->device->name() == first.device->name())
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::reserve_device is {}, where the target is",
                            first.device->name()),
                "give another device, such as cpu, or leave it out");
  const auto budget = budget_for(*loaded);
  if (!budget)
    return tl::unexpected(budget.error());
  auto pool = loaded->make_pool(
      options_.page_tokens,
      std::min(budget->pages[scheduling::target_pool], first.pool->ledger().total), budget->states);
  if (!pool)
    return tl::unexpected(pool.error());
  TargetModelParts standby = first;
  standby.model = loaded->model;
  standby.device = loaded->device;
  standby.pool = *pool;
  standby.full_length = std::min(first.full_length, budget->full_length);
  context_.parts.standby = std::move(standby);
  context_.standby = target_info(*loaded);
  context_.standby->not_obeyed = context_.target.not_obeyed;
  return {};
}

} // namespace

Result<EngineContext> open_context(const EngineOptions& options,
                                   const std::shared_ptr<base::Timekeeper>& time,
                                   const std::shared_ptr<base::Trace>& trace,
                                   const OtherMachines* machines, caf::actor_system* system) {
  return ContextBuilder(options, time, trace, machines, system).build();
}

} // namespace paceline::actors
