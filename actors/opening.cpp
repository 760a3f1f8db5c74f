#include "actors/opening.hpp"

#include "actors/draft_step.hpp"
#include "actors/host_drafter.hpp"
#include "actors/kv_budget.hpp"
#include "actors/limits.hpp"
#include "gpu/limits.hpp"
#include "models/scripted.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>

namespace paceline::actors {
namespace {

using Time = std::shared_ptr<base::Timekeeper>;
using TraceRef = std::shared_ptr<base::Trace>;

/// A model on its device.
struct Loaded {
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<const models::Tokenizer> tokenizer;
};

Result<void> check_range(const char* option, int value, int low, int high) {
  if (value >= low && value <= high)
    return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", option, value),
              fmt::format("give a number from {} to {}", low, high));
}

Result<void> check_time(const char* option, std::chrono::milliseconds value) {
  if (value >= std::chrono::milliseconds(0) && value <= limits::fault_time_max)
    return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is {} ms", option, value.count()),
              fmt::format("give a time up to {} ms", limits::fault_time_max.count()));
}

Result<void> check(const FaultOptions& o) {
  for (const auto& result :
       {check_range("faults.restarts_max", o.restarts_max, 0, limits::restarts_max_max),
        check_range("faults.rebuilds_max", o.rebuilds_max, 0, limits::restarts_max_max),
        check_time("faults.restart_pause", o.restart_pause),
        check_time("faults.restart_pause_max", o.restart_pause_max),
        check_time("faults.restarts_forgotten", o.restarts_forgotten),
        check_time("faults.stall_patience", o.stall_patience)})
    if (!result)
      return result;
  if (o.restart_pause > o.restart_pause_max)
    return fail(ErrorCode::invalid_argument,
                fmt::format("faults.restart_pause is {} ms", o.restart_pause.count()),
                "give at most faults.restart_pause_max");
  return {};
}

Result<void> check(const EngineOptions& o) {
  const int window_max = sampling::limits::window_max;
  for (const auto& result :
       {check_range("--max-num-seqs", o.max_num_seqs, 1, limits::max_num_seqs_max),
        check_range("--max-waiting", o.max_waiting, 0, limits::max_waiting_max),
        check_range("--fork-rows", o.fork_rows, 0, limits::fork_rows_max),
        check_range("--page-tokens", o.page_tokens, 1, 1024),
        check_range("--prefill-chunk", o.prefill_chunk, 1, limits::prefill_chunk_max),
        check_range("--threads", o.threads, 0, gpu::limits::lane_threads_max),
        check_range("--window", o.window.value_or(1), 1, window_max)})
    if (!result)
      return result;
  if (o.prefill == Prefill::fast && o.prefill_chunk < gpu::fast_chunk)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--prefill-chunk is {} with --prefill fast", o.prefill_chunk),
                fmt::format("give at least {}", gpu::fast_chunk));
  return check(o.faults);
}

Result<Loaded> load(const std::string& name, const std::string& role, const std::string& device,
                    int threads, const EngineOptions& o, const Time& time, const TraceRef& trace) {
  Loaded loaded;
  auto opened = gpu::open_device(device, {threads, time, trace});
  if (!opened)
    return tl::unexpected(opened.error());
  loaded.device = *opened;
  auto path = models::resolve_model_path(name, role);
  if (!path)
    return tl::unexpected(path.error());
  auto tokenizer = models::is_scripted(*path) ? models::make_scripted_tokenizer(*path)
                                              : models::Tokenizer::load(*path);
  if (!tokenizer)
    return tl::unexpected(tokenizer.error());
  loaded.tokenizer = *tokenizer;
  models::LoadOptions how;
  how.dtype = o.dtype;
  how.progress = o.progress;
  if (o.max_model_len > 0)
    how.max_positions = o.max_model_len;
  if (role == "target")
    how.positions_needed = o.max_model_len;
  auto model = models::load_model(*path, loaded.device, how);
  if (!model)
    return tl::unexpected(model.error());
  loaded.model = *model;
  return loaded;
}

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

ModelInfo info_of(const Loaded& loaded, const std::string& name) {
  ModelInfo info = loaded.model->info();
  info.name = name;
  return info;
}

/// Rows that a draft pass may have for forks.
int fork_rows_of(const EngineOptions& o) {
  const bool forks = o.lookahead == Lookahead::automatic || o.lookahead == Lookahead::fork;
  const bool ahead =
      o.speculation == SpeculationMode::automatic || o.speculation == SpeculationMode::overlap;
  return forks && ahead ? o.fork_rows : 0;
}

/// Pages of both pools out of one budget.
Result<messages::PerPool<std::size_t>> pages_for(const EngineOptions& o, const Loaded& target,
                                                 const std::optional<Loaded>& draft,
                                                 int max_model_len) {
  const auto bytes_of = [&](const Loaded& loaded) {
    return loaded.model->kv_shape(o.page_tokens).page_bytes();
  };
  KvDemand demand;
  demand.memory = o.kv_memory_bytes;
  demand.available = target.device->memory().available;
  demand.max_model_len = max_model_len;
  demand.max_num_seqs = o.max_num_seqs;
  demand.prefill_chunk = o.prefill_chunk;
  demand.page_tokens = o.page_tokens;
  demand.page_bytes = {bytes_of(target), draft ? bytes_of(*draft) : 0};
  demand.attention_window = target.model->window();
  demand.fork_pages = std::size_t(fork_rows_of(o)) * std::size_t(limits::pages_per_fork_row);
  return kv_budget(demand);
}

Result<std::shared_ptr<gpu::KvPool>> make_pool(const EngineOptions& o, const Loaded& loaded,
                                               std::size_t pages) {
  return gpu::KvPool::create(*loaded.device, loaded.model->kv_shape(o.page_tokens), pages);
}

int context_of(const EngineOptions& o, const Loaded& target) {
  const int trained = target.model->info().max_model_len;
  return o.max_model_len > 0 ? std::min(o.max_model_len, trained)
                             : std::min(trained, models::limits::positions_default);
}

/// A caller's drafter proposes one continuation.
Lookahead chain_at_most(Lookahead lookahead) {
  return lookahead == Lookahead::none ? lookahead : Lookahead::chain;
}

sampling::PolicyOptions policy_of(const EngineOptions& o, const Loaded& target,
                                  const std::optional<Loaded>& draft) {
  sampling::PolicyOptions policy;
  policy.mode = draft || o.drafter ? o.speculation : SpeculationMode::off;
  policy.window = o.window;
  policy.lookahead = draft ? o.lookahead : chain_at_most(o.lookahead);
  policy.fork_rows = o.fork_rows;
  if (draft) { // reading weights is what a step costs
    const auto bytes = double(std::max<std::size_t>(target.model->info().weight_bytes, 1));
    policy.prior_cost_ratio =
        std::clamp(double(draft->model->info().weight_bytes) / bytes, 0.005, 1.0);
  }
  return policy;
}

/// Rows of logits a step may ask for: every sequence with the longest window, within memory.
int logit_rows_of(const EngineOptions& o, const Loaded& target) {
  constexpr std::size_t memory = 256u << 20;
  const std::size_t row = sizeof(float) * std::size_t(target.model->vocabulary());
  const int most = o.max_num_seqs * (sampling::limits::window_max + 1);
  return std::clamp(int(memory / row), o.max_num_seqs, most);
}

/// The target on `device`, ready for how prompts are to be read.
Result<Loaded> load_target(const EngineOptions& o, const std::string& device, const Time& time,
                           const TraceRef& trace) {
  auto target = load(o.target, "target", device, o.threads, o, time, trace);
  if (target && o.prefill == Prefill::fast)
    if (auto ready = target->model->prepare_fast_prefill(o.prefill_chunk); !ready)
      return tl::unexpected(ready.error());
  return target;
}

/// The draft, unless there is none.
Result<std::optional<Loaded>> load_draft(const EngineOptions& o, const Loaded& target,
                                         const Time& time, const TraceRef& trace) {
  if (o.draft.empty() || o.drafter || o.speculation == SpeculationMode::off)
    return std::nullopt;
  auto loaded = load(o.draft, "draft", draft_device(o, *target.device), 0, o, time, trace);
  if (!loaded)
    return tl::unexpected(loaded.error());
  if (auto same = models::check_same_vocabulary(*target.tokenizer, *loaded->tokenizer); !same)
    return tl::unexpected(same.error());
  return *loaded;
}

SchedulerParts scheduler_parts(const EngineOptions& o, const Loaded& target,
                               const std::optional<Loaded>& draft) {
  SchedulerParts parts;
  parts.policy = policy_of(o, target, draft);
  parts.has_draft = draft || o.drafter;
  parts.max_model_len = context_of(o, target);
  parts.max_num_seqs = o.max_num_seqs;
  parts.prefill_chunk = o.prefill_chunk;
  parts.fast_chunk = o.prefill == Prefill::fast ? gpu::fast_chunk : 0;
  parts.attention_window = target.model->window();
  parts.logit_rows = logit_rows_of(o, target);
  parts.faults = o.faults;
  return parts;
}

/// What drafts by `drafting`, for whichever device the target is on.
template <class Step>
DraftModelParts draft_parts(const typename Step::Parts& drafting, const EngineParts& parts) {
  const auto make_step = [drafting](std::shared_ptr<DraftBoard> board,
                                    std::shared_ptr<gpu::Device> reader) {
    auto all = drafting;
    all.reader = std::move(reader);
    return std::make_shared<Step>(std::move(all), std::move(board));
  };
  return {drafting.device, make_step, parts.target.reaper, parts.telemetry};
}

DraftModelParts model_parts(const Loaded& draft, const EngineOptions& o, const EngineParts& parts) {
  return draft_parts<DraftStep>({draft.model, draft.device, parts.draft_pool,
                                 parts.sampler.vocabulary, o.max_num_seqs, fork_rows_of(o),
                                 parts.telemetry},
                                parts);
}

Result<DraftModelParts> drafter_parts(const EngineOptions& o, const EngineParts& parts,
                                      const Time& time, const TraceRef& trace) {
  const std::string name = draft_device(o, *parts.target.device);
  auto host = gpu::open_device(name, {1, time, trace});
  if (!host)
    return tl::unexpected(host.error());
  if (!(*host)->on_host())
    return fail(ErrorCode::invalid_argument, "a caller's drafter cannot run on " + name,
                "leave the draft's device out, or give cpu");
  return draft_parts<HostDraftStep>(
      {o.drafter, *host, parts.sampler.vocabulary, parts.telemetry, std::make_shared<std::mutex>()},
      parts);
}

/// The target once more, where it goes on when its device keeps failing. Its pool has no more pages
/// than the first one's.
Result<void> prepare_reserve(Opened& opened, const EngineOptions& o,
                             const std::optional<Loaded>& draft, const Time& time,
                             const TraceRef& trace) {
  const TargetModelParts& first = opened.parts.target;
  auto loaded = load_target(o, o.reserve_device, time, trace);
  if (!loaded)
    return tl::unexpected(loaded.error());
  if (loaded->device->name() == first.device->name())
    return fail(ErrorCode::invalid_argument,
                fmt::format("--reserve-device is {}, where the target is", first.device->name()),
                "give another device, such as cpu, or leave it out");
  const auto pages = pages_for(o, *loaded, draft, opened.max_model_len);
  if (!pages)
    return tl::unexpected(pages.error());
  auto pool = make_pool(o, *loaded, std::min(pages->target, first.pool->ledger().total));
  if (!pool)
    return tl::unexpected(pool.error());
  TargetModelParts parts = first;
  parts.model = loaded->model;
  parts.device = loaded->device;
  parts.pool = *pool;
  opened.parts.reserve = std::move(parts);
  opened.reserve = info_of(*loaded, o.target);
  opened.reserve->prefill = o.prefill;
  return {};
}

/// What a checkpoint's folder says of how it is used.
Result<void> load_manners(Opened& opened, const std::string& name) {
  const auto path = models::resolve_model_path(name, "target");
  if (!path)
    return {};
  const auto special = opened.tokenizer->encode("", true);
  opened.chat = models::ChatTemplate::load(*path, opened.tokenizer->decode(special, true));
  if (models::is_scripted(*path))
    return {};
  auto defaults = models::load_generation_defaults(*path);
  if (!defaults)
    return tl::unexpected(defaults.error());
  opened.defaults = *defaults;
  return {};
}

} // namespace

Result<Opened> open_parts(const EngineOptions& o, const Time& time, const TraceRef& trace) {
  if (auto checked = check(o); !checked)
    return tl::unexpected(checked.error());
  auto target = load_target(o, o.device, time, trace);
  if (!target)
    return tl::unexpected(target.error());
  if (o.page_tokens % 2 != 0 && !models::is_scripted(o.target)) // keys of bf16 go in pairs
    return fail(ErrorCode::invalid_argument, fmt::format("page_tokens is {}", o.page_tokens),
                "give an even number");
  auto draft = load_draft(o, *target, time, trace);
  if (!draft)
    return tl::unexpected(draft.error());

  Opened opened;
  opened.tokenizer = target->tokenizer;
  if (auto loaded = load_manners(opened, o.target); !loaded)
    return tl::unexpected(loaded.error());
  opened.target = info_of(*target, o.target);
  opened.target.prefill = o.prefill;
  opened.max_model_len = context_of(o, *target);
  opened.reaper = std::make_shared<LaneReaper>(o.virtual_time);
  EngineParts& parts = opened.parts;
  parts.telemetry = std::make_shared<Telemetry>();
  parts.telemetry->trace = trace;
  parts.telemetry->time = time;
  const auto pages = pages_for(o, *target, *draft, opened.max_model_len);
  if (!pages)
    return tl::unexpected(pages.error());
  auto pool = make_pool(o, *target, pages->target);
  if (!pool)
    return tl::unexpected(pool.error());
  parts.faults = o.faults;
  parts.facade = {target->tokenizer, o.max_waiting + o.max_num_seqs, parts.telemetry, 0};
  parts.scheduler = scheduler_parts(o, *target, *draft);
  parts.scheduler.telemetry = parts.telemetry;
  const int logit_rows = parts.scheduler.logit_rows;
  parts.target = {target->model, target->device, *pool,          o.prefill_chunk + logit_rows,
                  logit_rows,    opened.reaper,  parts.telemetry};
  parts.sampler.vocabulary = std::min(target->tokenizer->vocabulary(), target->model->vocabulary());
  parts.sampler.telemetry = parts.telemetry;
  if (*draft) {
    opened.draft = info_of(**draft, o.draft);
    parts.facade.draft_context = opened.draft->max_model_len;
    auto drafts = make_pool(o, **draft, pages->draft);
    if (!drafts)
      return tl::unexpected(drafts.error());
    parts.draft_pool = *drafts;
    parts.draft = model_parts(**draft, o, parts);
  } else if (o.drafter) {
    auto drafter = drafter_parts(o, parts, time, trace);
    if (!drafter)
      return tl::unexpected(drafter.error());
    parts.draft = std::move(*drafter);
    parts.sampler.check_draws_every = 0; // a caller's draws cannot be repeated
  }
  if (!o.reserve_device.empty())
    if (auto ready = prepare_reserve(opened, o, *draft, time, trace); !ready)
      return tl::unexpected(ready.error());
  return opened;
}

} // namespace paceline::actors
