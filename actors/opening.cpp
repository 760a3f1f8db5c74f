#include "actors/opening.hpp"

#include "actors/draft_step.hpp"
#include "actors/host_drafter.hpp"
#include "actors/limits.hpp"
#include "gpu/limits.hpp"
#include "models/scripted.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <fmt/format.h>

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

Result<void> check(const EngineOptions& o) {
  const int window_max = sampling::limits::window_max;
  for (const auto& result :
       {check_range("--max-num-seqs", o.max_num_seqs, 1, limits::max_num_seqs_max),
        check_range("--max-waiting", o.max_waiting, 0, limits::max_waiting_max),
        check_range("--fork-rows", o.fork_rows, 0, limits::fork_rows_max),
        check_range("--page-tokens", o.page_tokens, 1, 1024),
        check_range("--prefill-chunk", o.prefill_chunk, 1, 65'536),
        check_range("--threads", o.threads, 0, gpu::limits::lane_threads_max),
        check_range("--window", o.window.value_or(1), 1, window_max)})
    if (!result)
      return result;
  return {};
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
  auto model = models::load_model(*path, loaded.device, how);
  if (!model)
    return tl::unexpected(model.error());
  loaded.model = *model;
  return loaded;
}

/// Where the draft runs unless told: beside a target on the CPU, on the last of its cores with a
/// thread of its own (a small model gains nothing from more, and the target's team keeps the
/// others to itself); else where the target is.
std::string draft_device(const EngineOptions& o, const gpu::Device& target) {
  if (!o.draft_device.empty())
    return o.draft_device;
  const auto name = gpu::parse_device(target.name());
  if (name && name->kind == gpu::DeviceKind::cpu && !name->cores.empty())
    return fmt::format("cpu:{}", name->cores.back());
  return o.device;
}

ModelInfo info_of(const Loaded& loaded, const std::string& name) {
  ModelInfo info = loaded.model->info();
  info.name = name;
  return info;
}

std::size_t page_bytes(const Loaded& loaded, int page_tokens) {
  return loaded.model->kv_shape(page_tokens).page_bytes();
}

/// Rows that a draft pass may have for forks.
int fork_rows_of(const EngineOptions& o) {
  const bool forks = o.lookahead == Lookahead::automatic || o.lookahead == Lookahead::fork;
  const bool ahead =
      o.speculation == SpeculationMode::automatic || o.speculation == SpeculationMode::overlap;
  return forks && ahead ? o.fork_rows : 0;
}

/// What forks may hold beside what sequences do.
std::size_t fork_pages_of(const EngineOptions& o) {
  return std::size_t(fork_rows_of(o) * limits::pages_per_fork_row);
}

/// Pages per pool: draft and target hold the same tokens, out of one budget. The draft's forks have
/// some more, as far as the budget goes.
Result<std::size_t> pages_for(const EngineOptions& o, const Loaded& target,
                              const std::optional<Loaded>& draft, int max_model_len) {
  const std::size_t both =
      page_bytes(target, o.page_tokens) + (draft ? page_bytes(*draft, o.page_tokens) : 0);
  const auto pages = [&](std::size_t tokens) {
    return (tokens + std::size_t(o.page_tokens) - 1) / std::size_t(o.page_tokens);
  };
  const std::size_t one = pages(std::size_t(max_model_len)) + 1;
  const std::size_t all = one * std::size_t(o.max_num_seqs);
  std::size_t budget = o.kv_memory_bytes;
  if (budget == 0) // what all sequences may need, but leave most of the memory alone
    budget = std::max(one * both, std::min(all * both, target.device->memory().available / 4));
  const std::size_t forks = draft ? fork_pages_of(o) * page_bytes(*draft, o.page_tokens) : 0;
  const std::size_t rest = budget >= one * both + forks ? budget - forks : budget;
  const std::size_t count = std::min(rest / both, all);
  if (count < one)
    return fail(ErrorCode::out_of_memory,
                fmt::format("a KV cache of {} bytes does not hold one sequence of {} tokens",
                            budget, max_model_len),
                fmt::format("give --kv-memory at least {}, or lower --max-model-len", one * both));
  return count;
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

} // namespace

Result<Opened> open_parts(const EngineOptions& o, Time time, TraceRef trace) {
  if (auto checked = check(o); !checked)
    return tl::unexpected(checked.error());
  auto target = load(o.target, "target", o.device, o.threads, o, time, trace);
  if (!target)
    return tl::unexpected(target.error());
  if (o.page_tokens % 2 != 0 && !models::is_scripted(o.target)) // keys of bf16 go in pairs
    return fail(ErrorCode::invalid_argument, fmt::format("page_tokens is {}", o.page_tokens),
                "give an even number");
  std::optional<Loaded> draft;
  if (!o.draft.empty() && !o.drafter && o.speculation != SpeculationMode::off) {
    auto loaded = load(o.draft, "draft", draft_device(o, *target->device), 0, o, time, trace);
    if (!loaded)
      return tl::unexpected(loaded.error());
    if (auto same = models::check_same_vocabulary(*target->tokenizer, *loaded->tokenizer); !same)
      return tl::unexpected(same.error());
    draft = *loaded;
  }

  Opened opened;
  opened.max_model_len = context_of(o, *target);
  auto pages = pages_for(o, *target, draft, opened.max_model_len);
  if (!pages)
    return tl::unexpected(pages.error());
  EngineParts& parts = opened.parts;
  parts.telemetry = std::make_shared<Telemetry>();
  parts.telemetry->trace = trace;
  parts.telemetry->time = time;
  for (auto [loaded, pool] : {std::pair{&*target, &parts.target_pool},
                              std::pair{draft ? &*draft : nullptr, &parts.draft_pool}}) {
    if (!loaded)
      continue;
    auto made = gpu::KvPool::create(*loaded->device, loaded->model->kv_shape(o.page_tokens),
                                    *pages + (pool == &parts.draft_pool ? fork_pages_of(o) : 0));
    if (!made)
      return tl::unexpected(made.error());
    *pool = *made;
  }

  const int vocabulary = std::min(target->tokenizer->vocabulary(), target->model->vocabulary());
  const int logit_rows = logit_rows_of(o, *target);
  const auto reaper = std::make_shared<LaneReaper>(o.virtual_time);
  opened.reaper = reaper;
  parts.facade = {target->tokenizer, o.max_waiting + o.max_num_seqs, parts.telemetry};
  parts.scheduler = {1,
                     policy_of(o, *target, draft),
                     draft || o.drafter,
                     opened.max_model_len,
                     o.max_num_seqs,
                     o.prefill_chunk,
                     logit_rows,
                     parts.telemetry};
  parts.target = {target->model, target->device, parts.target_pool, o.prefill_chunk + logit_rows,
                  logit_rows,    reaper,         parts.telemetry};
  parts.sampler.vocabulary = vocabulary;
  parts.sampler.telemetry = parts.telemetry;
  if (draft) {
    const DraftStep::Parts drafting{draft->model,   draft->device,   parts.draft_pool, vocabulary,
                                    o.max_num_seqs, fork_rows_of(o), parts.telemetry};
    parts.draft = DraftModelParts{draft->device,
                                  [drafting](std::shared_ptr<DraftBoard> board) {
                                    return std::make_shared<DraftStep>(drafting, std::move(board));
                                  },
                                  reaper, parts.telemetry};
    opened.draft = info_of(*draft, o.draft);
  }
  if (o.drafter) {
    auto host = gpu::open_device(draft_device(o, *target->device), {1, time, trace});
    if (!host)
      return tl::unexpected(host.error());
    const HostDraftStep::Parts drafting{o.drafter, *host, vocabulary, parts.telemetry};
    parts.draft =
        DraftModelParts{*host,
                        [drafting](std::shared_ptr<DraftBoard> board) {
                          return std::make_shared<HostDraftStep>(drafting, std::move(board));
                        },
                        reaper, parts.telemetry};
    parts.sampler.check_draws_every = 0; // a caller's draws cannot be repeated
  }
  opened.tokenizer = target->tokenizer;
  opened.target = info_of(*target, o.target);
  const auto path = models::resolve_model_path(o.target, "target");
  if (path && !models::is_scripted(*path)) {
    auto defaults = models::load_generation_defaults(*path);
    if (!defaults)
      return tl::unexpected(defaults.error());
    opened.defaults = *defaults;
  }
  if (path) {
    const auto special = opened.tokenizer->encode("", true);
    opened.chat = models::ChatTemplate::load(*path, opened.tokenizer->decode(special, true));
  }
  return opened;
}

} // namespace paceline::actors
