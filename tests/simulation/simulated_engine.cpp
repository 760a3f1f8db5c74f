#include "tests/simulation/simulated_engine.hpp"

#include "actors/request_sink.hpp"
#include "execution/draft_step.hpp"
#include "execution/drafter_step.hpp"
#include "models/synthetic/scripted.hpp"
#include "nodes/limits.hpp"
#include "nodes/node_device.hpp"
#include "speculation/lookup/suffix_drafter.hpp"
#include "tests/support/word_tokenizer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

constexpr actors::VirtualTimeOptions order{
    .shuffle = true, .early_timer_probability = 0.05, .early_timer_reach = 5ms};
constexpr std::size_t suffix_tokens = 4096; // outputs soon go again

/// What `Engine::submit` answers at once.
Finished refusal() {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{ErrorCode::overloaded, "the admission queue is full", ""};
  return end;
}

} // namespace

Ground::Ground(std::uint64_t seed, const FaultPlan& plan)
    : faults(std::make_shared<FaultSource>(plan, seed)), system(seed, order),
      time(std::make_shared<actors::ActorTimekeeper>(system.system())) {}

void Ground::rest(base::Duration length) {
  system.run_until([] { return false; }, system.now() + length);
}

Ground::~Ground() {
  system.decide_fates(nullptr);
  time->stop();
  closer->close();
}

SimulatedEngine::SimulatedEngine(Ground& ground, const Workload& workload, Options options)
    : ground_(ground), workload_(workload), options_(std::move(options)),
      admission_(workload.max_open) {
  telemetry_->time = ground.time;
}

std::shared_ptr<gpu::Device> SimulatedEngine::device(base::Duration step, std::uint64_t salt,
                                                     bool mortal, bool steady, int shards) {
  return make_faulty_device({ground_.time, ground_.faults, step, options_.seed * 3 + salt,
                             workload_.queues, mortal, steady, workload_.machines.empty(), shards,
                             options_.news});
}

std::shared_ptr<gpu::KvPool> SimulatedEngine::pool(const models::Model& model,
                                                   const std::string& name, int slots_per_token) {
  const gpu::KvShape shape = model.kv_shape(slots_per_token * workload_.page_tokens);
  auto& kept = pools_[name];
  while (!kept) // a refusal before anything runs is the caller's to see, not the engine's
    if (auto made = gpu::KvPool::create(model.device(), shape, workload_.pages,
                                        2 * std::size_t(workload_.max_num_seqs)))
      kept = *made;
  return kept;
}

int SimulatedEngine::logit_rows() const {
  return std::max(workload_.max_num_seqs * 17, workload_.prefill_chunk);
}

actors::EngineParts SimulatedEngine::make_parts() {
  actors::EngineParts parts;
  add_settings(parts);
  add_draft(parts);
  add_target(parts);
  parts.facade = {tokenizer_, telemetry_, 0};
  parts.sampler = {workload_.target.vocabulary, options_.drafter ? 0 : 1, telemetry_};
  return parts;
}

void SimulatedEngine::add_settings(actors::EngineParts& parts) const {
  const Workload& w = workload_;
  auto& scheduler = parts.scheduler;
  parts.telemetry = telemetry_;
  parts.faults = w.faults;
  scheduler.policy.mode = w.mode;
  scheduler.policy.window = w.window;
  scheduler.has_draft = true;
  scheduler.max_model_len = w.max_model_len;
  scheduler.max_num_seqs = w.max_num_seqs;
  scheduler.stages = w.stages;
  scheduler.scheduling = w.scheduling;
  scheduler.batching = w.batching;
  scheduler.prefill_chunk = w.prefill_chunk;
  scheduler.row_budget = w.row_budget;
  scheduler.time_between_tokens = w.time_between_tokens;
  scheduler.logit_rows = logit_rows();
  scheduler.telemetry = telemetry_;
  scheduler.faults = w.faults;
  for (const Machine& machine : w.machines)
    if (!machine.stages.empty())
      scheduler.stage_wait = w.faults.stage_patience;
}

actors::TargetModelParts
SimulatedEngine::target_parts(const std::shared_ptr<const models::Model>& model,
                              const std::shared_ptr<gpu::Device>& on, const std::string& name) {
  return {{model, on, pool(*model, name)},
          workload_.prefill_chunk + logit_rows(),
          logit_rows(),
          ground_.closer,
          telemetry_};
}

std::shared_ptr<const nodes::RemoteStageParts> SimulatedEngine::elsewhere(std::size_t stage) const {
  return options_.stage ? options_.stage(int(stage)) : nullptr;
}

std::shared_ptr<gpu::Device> SimulatedEngine::stage_device(std::size_t stage) {
  const Workload& w = workload_;
  auto here = device(w.target_step / w.stages, 10 * stage, w.reserve, w.steady, w.shards);
  if (const auto there = elsewhere(stage))
    return std::make_shared<nodes::StageDevice>(there->places.front().name, nodes::NodeAddress{},
                                                std::move(here));
  return here;
}

/// The first one's books count its pages, wherever it is. A head has none.
actors::TargetStage SimulatedEngine::stage_behind(std::shared_ptr<const models::Model> model,
                                                  std::size_t number,
                                                  const std::shared_ptr<gpu::KvPool>& first) {
  const std::shared_ptr<gpu::Device> on(model, &model->device());
  const auto there = elsewhere(number);
  const bool has_pages = !there && model->kv_shape(1).bytes() > 0;
  auto pages = has_pages ? pool(*model, fmt::format("stage {}", number)) : first;
  return {std::move(model), on, std::move(pages), there ? nodes::make_proxy(there) : nullptr};
}

void SimulatedEngine::add_target(actors::EngineParts& parts) {
  const Workload& w = workload_;
  std::vector<std::shared_ptr<gpu::Device>> devices;
  for (std::size_t stage = 0; stage < std::size_t(w.stages); ++stage)
    devices.push_back(stage_device(stage));
  const auto stages = models::make_scripted_stages(w.target, devices).value();
  tokenizer_ = models::make_scripted_tokenizer(stages.front()->info().name).value();
  parts.target = target_parts(stages.front(), devices.front(), "target");
  for (std::size_t i = 1; i < stages.size(); ++i)
    parts.target.behind.push_back(stage_behind(stages[i], i, parts.target.pool));
  if (!w.reserve)
    return;
  const auto other = device(w.target_step, 2);
  parts.standby = target_parts(models::make_scripted(w.target, other).value(), other, "reserve");
}

void SimulatedEngine::add_draft(actors::EngineParts& parts) {
  const Workload& w = workload_;
  if (options_.remote) {
    parts.scheduler.policy.fork_rows = nodes::limits::node_forks_max;
    parts.draft = remote_parts();
    return;
  }
  const auto on = device(w.draft_step, 1);
  parts.scheduler.forms_draft = true;
  if (options_.drafter) {
    parts.scheduler.policy.lookahead = Lookahead::chain;
    parts.scheduler.drafters = {"drafter"};
    parts.draft = drafter_parts(on);
    return;
  }
  parts.scheduler.policy.tree_rows_max = w.tree_rows;
  parts.scheduler.policy.tree_rows = w.tree_rows;
  const auto draft = models::make_scripted(w.draft(), on).value();
  std::shared_ptr<const text::VocabularyMap> map;
  if (!w.draft_words.empty())
    map = text::map_vocabularies(WordTokenizer(w.words), WordTokenizer(w.draft_words)).value();
  parts.draft_pool = pool(*draft, "draft", map ? 2 : 1);
  parts.scheduler.draft_pool = 1;
  execution::DraftStep::Parts drafting{draft,
                                       on,
                                       parts.draft_pool,
                                       w.target.vocabulary,
                                       w.max_num_seqs,
                                       parts.scheduler.policy.fork_rows,
                                       telemetry_,
                                       w.q_rows,
                                       nullptr,
                                       map};
  drafting.lookup_device = on;
  parts.scheduler.drafters = {"model"};
  if (w.looks_up) {
    drafting.lookup = std::make_shared<execution::DrafterHost>(
        std::make_shared<speculation::SuffixDrafter>(suffix_tokens), telemetry_);
    parts.scheduler.policy.lookup = true;
    parts.scheduler.drafters = telemetry_->drafters = {"suffix", "model"};
  }
  const auto make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                                    const std::shared_ptr<gpu::Device>&) {
    return std::make_shared<execution::DraftStep>(drafting, std::move(queue));
  };
  parts.draft = actors::DraftModelParts{on, make_step, ground_.closer, telemetry_};
}

actors::DraftModelParts SimulatedEngine::drafter_parts(std::shared_ptr<gpu::Device> device) {
  const auto host = std::make_shared<execution::DrafterHost>(options_.drafter(), telemetry_);
  const execution::DrafterStep::Parts drafting{host, device, workload_.target.vocabulary,
                                               telemetry_, workload_.q_rows};
  const auto make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                                    const std::shared_ptr<gpu::Device>&) {
    return std::make_shared<execution::DrafterStep>(drafting, std::move(queue));
  };
  return {std::move(device), make_step, ground_.closer, telemetry_,
          [host] { return host->is_disabled(); }};
}

actors::DraftModelParts SimulatedEngine::remote_parts() {
  nodes::RemoteDraftParts remote = options_.remote(device(workload_.draft_step, 3));
  remote.q_rows = workload_.q_rows;
  remote.telemetry = telemetry_;
  actors::DraftModelParts parts;
  parts.telemetry = telemetry_;
  parts.remote = nodes::make_proxy(std::move(remote));
  return parts;
}

/// None: there is nobody any more.
void SimulatedEngine::ask_handles(
    std::function<void(const std::optional<messages::ActorHandles>&)> answered) {
  // The argument is there because CAF 0.17 dereferences a null tuple of arguments without one.
  ground_.system.system().spawn(
      [answered](caf::event_based_actor* self, const messages::SupervisorActor& asked) {
        self->request(asked, caf::infinite, messages::Ping{})
            .then([answered](const messages::ActorHandles& handles) { answered(handles); },
                  [answered](const caf::error&) { answered(std::nullopt); });
      },
      supervisor_);
}

std::optional<messages::ActorHandles> SimulatedEngine::handles_now() {
  std::optional<std::optional<messages::ActorHandles>> answer;
  ask_handles([&](const auto& handles) { answer = handles; });
  ground_.system.run_until([&] { return answer.has_value(); });
  return answer.value_or(std::nullopt);
}

void SimulatedEngine::start(std::function<void(bool)> started) {
  supervisor_ = messages::spawn<actors::Supervisor>(ground_.system.system(), make_parts());
  ask_handles([this, started = std::move(started)](const auto& handles) {
    if (handles)
      facade_ = handles->facade;
    started(handles.has_value());
  });
}

void SimulatedEngine::submit(const Job& job, std::shared_ptr<base::EventSink> sink) {
  auto place = admission_.enter();
  if (!place)
    return sink->deliver(refusal());
  scheduling::Submit request;
  request.spec = std::make_shared<const speculation::SequenceSpec>(job.spec);
  request.prompt = job.prompt;
  request.stop = job.stop;
  request.sink = std::make_shared<actors::RequestSink>(std::move(sink), std::move(*place));
  messages::tell(facade_, std::move(request));
  if (!job.cancelled_at)
    return;
  for (int times = 0; times <= int(job.cancelled_twice); ++times)
    ground_.time->after(*job.cancelled_at, [this, id = job.spec.id] { cancel(id); });
}

void SimulatedEngine::cancel(std::uint64_t id) {
  if (facade_) // it has not ended
    messages::tell(facade_, messages::Cancel{id});
}

void SimulatedEngine::end() {
  caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
  supervisor_ = nullptr;
  facade_ = nullptr;
}

void SimulatedEngine::check_ledger(std::vector<std::string>& failures) {
  const auto handles = handles_now();
  if (!handles)
    return;                                            // it has ended
  messages::tell(handles->kv_cache, messages::Ping{}); // counts its pages anew
  ground_.rest(1ms);
  if (telemetry_->running + telemetry_->waiting != 0)
    failures.push_back("the scheduler has sequences that nobody asked for");
  if (telemetry_->kv_pages_used != 0)
    failures.push_back(
        fmt::format("{} pages are used by nobody", telemetry_->kv_pages_used.load()));
  if (telemetry_->kv_pages_quarantined != 0)
    failures.push_back(
        fmt::format("{} pages stay in quarantine", telemetry_->kv_pages_quarantined.load()));
}

void SimulatedEngine::check_pools(std::vector<std::string>& failures) const {
  for (const auto& [name, pool] : pools_)
    if (const gpu::PoolLedger ledger = pool->ledger(); ledger.out + ledger.states != 0)
      failures.push_back(fmt::format("{} pages and {} states of the {} are held after shutdown",
                                     ledger.out, ledger.states, name));
}

} // namespace paceline::testing
