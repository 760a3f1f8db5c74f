#include "tests/simulation/run.hpp"

#include "actors/outlet.hpp"
#include "actors/supervisor.hpp"
#include "actors/system/timekeeper.hpp"
#include "actors/system/virtual_time.hpp"
#include "execution/draft_step.hpp"
#include "execution/drafter_step.hpp"
#include "speculation/lookup/suffix_drafter.hpp"
#include "tests/simulation/faulty_device.hpp"
#include "tests/simulation/message_kinds.hpp"
#include "tests/simulation/turns.hpp"
#include "tests/simulation/witness.hpp"
#include "tests/support/word_tokenizer.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

constexpr actors::VirtualTimeOptions order{
    .shuffle = true, .early_timer_probability = 0.05, .early_timer_reach = 5ms};
/// Messages and timers of a run, and its virtual time: far more than any needs.
constexpr std::size_t steps_max = 2'000'000;
constexpr base::Duration time_max = 4h;
/// Where no fault takes time itself, no more is lost than restarts and rebuilds take.
constexpr base::Duration time_max_without_delays = 60s;

class SimulatedRun {
public:
  SimulatedRun(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options)
      : options_(options), workload_(draw_workload(seed)),
        faults_(std::make_shared<FaultSource>(plan, seed)), system_(seed, order),
        time_(std::make_shared<actors::ActorTimekeeper>(system_.system())),
        witness_(report_, telemetry_) {
    report_.seed = seed;
    faults_->log = [this](const std::string& fault) { log("!! " + fault); };
    if (int(workload_.jobs.size()) > options.jobs_max)
      workload_.jobs.resize(std::size_t(options.jobs_max));
  }
  ~SimulatedRun() {
    system_.decide_fates(nullptr);
    time_->stop();
    closer_->close();
  }
  SimulatedRun(const SimulatedRun&) = delete;

  Report run() {
    start();
    const base::TimePoint begin = system_.now();
    const bool answered = drive([&] { return ended_ == workload_.jobs.size(); });
    report_.time = system_.now() - begin;
    if (!answered)
      fail("not every request ends");
    else if (!faults_->plan().delays() && report_.time > time_max_without_delays)
      fail(
          fmt::format("{:.1f} s went by, though nothing stood still", base::seconds(report_.time)));
    faults_->end();
    settle();
    close();
    for (const Outlet& outlet : outlets_)
      outlet.check(report_);
    report_.faults = faults_->counts();
    report_.faults_total = faults_->count();
    report_.requests = int(workload_.jobs.size());
    return std::move(report_);
  }

private:
  /// Where a request's events go, and what has to be true of them.
  struct Outlet {
    const Job* job = nullptr;
    Expected expected;
    std::vector<TokenId> tokens;
    std::string text;
    std::vector<Finished> ends;
    int scores = 0;
    bool late = false; ///< Something came behind the end.

    void check(Report& report) const;
  };
  class Sink;

  void start();
  actors::EngineParts make_parts();
  actors::DraftModelParts drafter_parts(std::shared_ptr<gpu::Device> device);
  void submit(Outlet& outlet);
  void cancel(std::uint64_t id) { messages::tell(facade_, messages::Cancel{id}); }
  actors::Fate fate_of(const actors::Arrival& arrival);
  void kill_anybody();
  bool drive(const std::function<bool()>& reached);
  void settle();
  void close();
  void check_ledger();
  void fail(std::string what) { report_.failures.push_back(std::move(what)); }
  void log(const std::string& line) {
    if (options_.log)
      report_.log +=
          fmt::format("{:>14.6f} {}\n", base::seconds(system_.now() - base::TimePoint{}), line);
  }

  const RunOptions options_;
  Workload workload_;
  Report report_;
  std::shared_ptr<FaultSource> faults_;
  std::shared_ptr<base::Telemetry> telemetry_ = std::make_shared<base::Telemetry>();
  std::shared_ptr<execution::LaneCloser> closer_ = std::make_shared<execution::LaneCloser>(true);
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<gpu::KvPool> target_pool_;
  std::shared_ptr<gpu::KvPool> reserve_pool_; ///< Null: the target has no reserve.
  std::shared_ptr<gpu::KvPool> draft_pool_;
  std::vector<Outlet> outlets_;
  actors::Admission admission_{workload_.max_open};
  std::size_t ended_ = 0;
  bool supervisor_killed_ = false;
  actors::VirtualSystem system_;
  std::shared_ptr<actors::ActorTimekeeper> time_;
  messages::SupervisorActor supervisor_;
  messages::FacadeActor facade_;
  std::map<std::string, caf::strong_actor_ptr> actors_; ///< Last seen, by name.
  Witness witness_;
  Turns turns_{workload_.scheduling};
};

class SimulatedRun::Sink final : public base::EventSink {
public:
  Sink(SimulatedRun& run, Outlet& outlet) : run_(run), outlet_(outlet) {}
  void deliver(Event event) override {
    outlet_.late |= !outlet_.ends.empty();
    if (auto* delta = std::get_if<Delta>(&event)) {
      outlet_.tokens.insert(outlet_.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      outlet_.text += delta->text;
      run_.report_.tokens += int(delta->tokens.size());
    } else if (auto* end = std::get_if<Finished>(&event)) {
      run_.log(fmt::format("request {} ends: {} {}", outlet_.job->spec.id, to_string(end->reason),
                           end->error ? end->error->message : ""));
      ++run_.report_.ends[end->error ? to_string(end->error->code) : to_string(end->reason)];
      run_.witness_.ends(outlet_.job->spec.id, *end, int(outlet_.tokens.size()));
      outlet_.ends.push_back(std::move(*end));
      ++run_.ended_;
    } else {
      ++outlet_.scores;
    }
  }

private:
  SimulatedRun& run_;
  Outlet& outlet_;
};

void SimulatedRun::Outlet::check(Report& report) const {
  const auto fail = [&](const std::string& what) {
    report.failures.push_back(fmt::format("request {}: {}", job->spec.id, what));
  };
  if (ends.size() != 1)
    return fail(fmt::format("it ended {} times", ends.size()));
  if (late)
    fail("something came behind its end");
  const Finished& end = ends.front();
  if (end.usage.completion_tokens != int(tokens.size()))
    fail("its usage is not what it streamed");
  const bool whole = end.reason == FinishReason::stop || end.reason == FinishReason::length;
  if (job->spec.prompt_logprobs && whole && scores != 1)
    fail(fmt::format("its prompt was scored {} times", scores));
  if (job->spec.judged_by() == sampling::Rule::rejection ||
      (job->spec.rule == sampling::Rule::match && !job->spec.warping.greedy())) {
    if (int(tokens.size()) > job->spec.max_tokens)
      fail("more tokens than it asked for");
    if (end.reason == FinishReason::length && int(tokens.size()) < job->spec.max_tokens)
      fail("fewer tokens than it asked for");
    return;
  }
  const bool prefix = tokens.size() <= expected.tokens.size() &&
                      std::equal(tokens.begin(), tokens.end(), expected.tokens.begin());
  if (!prefix)
    return fail(fmt::format("tokens [{}] are not the model's [{}]", fmt::join(tokens, " "),
                            fmt::join(expected.tokens, " ")));
  if (whole && tokens.size() != expected.tokens.size())
    fail(fmt::format("ended ({}) after {} tokens of {}", to_string(end.reason), tokens.size(),
                     expected.tokens.size()));
  if (whole && (text != expected.text || end.reason != expected.reason))
    fail("its text or reason is not what plain decoding gives");
}

actors::EngineParts SimulatedRun::make_parts() {
  const Workload& w = workload_;
  const auto device = [&](base::Duration step, std::uint64_t salt, bool mortal = false) {
    return make_faulty_device({time_, faults_, step, report_.seed * 3 + salt, w.queues, mortal,
                               [this](LaneNews news) { witness_.sees(news); }});
  };
  const auto target_device = device(w.target_step / w.stages, 0, w.reserve);
  const auto draft_device = device(w.draft_step, 1);
  std::vector<std::shared_ptr<gpu::Device>> devices{target_device};
  while (int(devices.size()) < w.stages)
    devices.push_back(device(w.target_step / w.stages, 10 * devices.size()));
  const auto stages = models::make_scripted_stages(w.target, devices).value();
  const auto& target = stages.front();
  const auto draft = models::make_scripted(w.draft(), draft_device).value();
  tokenizer_ = models::make_scripted_tokenizer(target->info().name).value();
  const auto pool = [&](const models::Model& model, std::shared_ptr<gpu::KvPool>& kept,
                        int slots_per_token = 1) {
    const gpu::KvShape shape = model.kv_shape(slots_per_token * w.page_tokens);
    while (!kept) // a refusal before anything runs is the caller's to see, not the engine's
      if (auto made = gpu::KvPool::create(model.device(), shape, w.pages))
        kept = *made;
    return kept;
  };
  std::shared_ptr<const text::VocabularyMap> map;
  if (!w.draft_words.empty())
    map = text::map_vocabularies(WordTokenizer(w.words), WordTokenizer(w.draft_words)).value();
  const int logit_rows = std::max(w.max_num_seqs * 17, w.prefill_chunk);
  speculation::PolicyOptions policy;
  policy.mode = w.mode;
  policy.window = w.window;

  actors::EngineParts parts;
  parts.telemetry = telemetry_;
  parts.facade = {tokenizer_, telemetry_, 0};
  parts.scheduler.policy = policy;
  parts.scheduler.has_draft = true;
  parts.scheduler.max_model_len = w.max_model_len;
  parts.scheduler.max_num_seqs = w.max_num_seqs;
  parts.scheduler.stages = w.stages;
  parts.scheduler.scheduling = w.scheduling;
  parts.scheduler.batching = w.batching;
  parts.scheduler.prefill_chunk = w.prefill_chunk;
  parts.scheduler.row_budget = w.row_budget;
  parts.scheduler.time_between_tokens = w.time_between_tokens;
  parts.scheduler.logit_rows = logit_rows;
  parts.scheduler.telemetry = telemetry_;
  parts.scheduler.faults = w.faults;
  parts.faults = w.faults;
  if (!options_.drafter) {
    parts.draft_pools = {pool(*draft, draft_pool_, map ? 2 : 1)};
    parts.scheduler.draft_pool = 1;
  }
  const auto target_parts = [&](const std::shared_ptr<const models::Model>& model,
                                const std::shared_ptr<gpu::Device>& on,
                                std::shared_ptr<gpu::KvPool>& kept) {
    return actors::TargetModelParts{{model, on, pool(*model, kept)},
                                    w.prefill_chunk + logit_rows,
                                    logit_rows,
                                    closer_,
                                    telemetry_};
  };
  parts.target = target_parts(target, target_device, target_pool_);
  for (std::size_t i = 1; i < stages.size(); ++i) {
    std::shared_ptr<gpu::KvPool> numbered; // by the first stage's
    parts.target.behind.push_back({stages[i], devices[i], pool(*stages[i], numbered)});
  }
  if (w.reserve) {
    const auto other = device(w.target_step, 2);
    parts.standby =
        target_parts(models::make_scripted(w.target, other).value(), other, reserve_pool_);
  }
  parts.sampler = {w.target.vocabulary, options_.drafter ? 0 : 1, telemetry_};
  if (options_.drafter) {
    parts.scheduler.policy.lookahead = Lookahead::chain;
    parts.draft = drafter_parts(draft_device);
    return parts;
  }
  execution::DraftStep::Parts drafting{draft,
                                       draft_device,
                                       parts.draft_pools.front(),
                                       w.target.vocabulary,
                                       w.max_num_seqs,
                                       policy.fork_rows,
                                       telemetry_,
                                       w.q_rows,
                                       nullptr,
                                       map};
  if (w.looks_up) {
    drafting.lookup = std::make_shared<execution::DrafterHost>(
        std::make_shared<speculation::SuffixDrafter>(4096), telemetry_); // outputs soon go again
    drafting.lookup_device = draft_device;
    parts.scheduler.policy.lookup = true;
    parts.scheduler.drafters = telemetry_->drafters = {"suffix", "model"};
  }
  const auto make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                                    const std::shared_ptr<gpu::Device>&) {
    return std::make_shared<execution::DraftStep>(drafting, std::move(queue));
  };
  parts.draft = actors::DraftModelParts{draft_device, make_step, closer_, telemetry_};
  return parts;
}

actors::DraftModelParts SimulatedRun::drafter_parts(std::shared_ptr<gpu::Device> device) {
  const auto host = std::make_shared<execution::DrafterHost>(options_.drafter(), telemetry_);
  const execution::DrafterStep::Parts drafting{host, device, workload_.target.vocabulary,
                                               telemetry_, workload_.q_rows};
  const auto make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                                    const std::shared_ptr<gpu::Device>&) {
    return std::make_shared<execution::DrafterStep>(drafting, std::move(queue));
  };
  return {std::move(device), make_step, closer_, telemetry_, [host] { return host->left_out(); }};
}

void SimulatedRun::start() {
  supervisor_ = messages::spawn<actors::Supervisor>(system_.system(), make_parts());
  bool known = false;
  system_.system().spawn(
      [&](caf::event_based_actor* self, const messages::SupervisorActor& asked) {
        self->request(asked, caf::infinite, messages::Ping{})
            .then([&](const messages::ActorHandles& handles) {
              facade_ = handles.facade;
              known = true;
            });
      },
      supervisor_);
  system_.run_until([&] { return known; });
  system_.decide_fates([this](const actors::Arrival& arrival) { return fate_of(arrival); });
  outlets_.resize(workload_.jobs.size());
  for (std::size_t i = 0; i < outlets_.size(); ++i) {
    Outlet& outlet = outlets_[i];
    outlet.job = &workload_.jobs[i];
    outlet.expected = expected_of(workload_, *outlet.job, *tokenizer_);
    time_->after(outlet.job->arrival, [this, &outlet] { submit(outlet); });
  }
}

/// What `Engine::submit` answers at once.
Finished refusal() {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{ErrorCode::overloaded, "the admission queue is full", ""};
  return end;
}

void SimulatedRun::submit(Outlet& outlet) {
  const Job& job = *outlet.job;
  const auto sink = std::make_shared<Sink>(*this, outlet);
  auto place = admission_.enter();
  if (!place)
    return sink->deliver(refusal());
  scheduling::Submit request;
  request.spec = std::make_shared<const speculation::SequenceSpec>(job.spec);
  request.prompt = job.prompt;
  request.stop = job.stop;
  if (job.deadline.count() > 0)
    request.deadline = job.deadline;
  request.sink = std::make_shared<actors::Outlet>(sink, std::move(*place));
  messages::tell(facade_, std::move(request));
  if (!job.cancelled_at)
    return;
  for (int times = 0; times <= int(job.cancelled_twice); ++times)
    time_->after(*job.cancelled_at, [this, id = job.spec.id] { cancel(id); });
}

/// What the plan does to a message.
actors::Fate SimulatedRun::fate_of(const actors::Arrival& arrival) {
  using Kind = actors::Fate::Kind;
  FaultSource& f = *faults_;
  const int kind = kind_of(arrival.content);
  if (kind < 0)
    return {};
  log(fmt::format("{:<10} {}", arrival.name, message_kinds()[std::size_t(kind)].name));
  witness_.sees(arrival);
  if (auto wrong = turns_.sees(arrival))
    fail(*std::move(wrong));
  const bool facade = arrival.receiver == facade_;
  const bool supervisor = arrival.receiver == supervisor_;
  if (!supervisor_killed_ && f.strikes(&FaultPlan::kill_supervisor)) {
    supervisor_killed_ = true;
    caf::anon_send_exit(supervisor_, caf::exit_reason::kill);
  }
  if (f.strikes(&FaultPlan::leap))
    time_->after(0ns, [this] { system_.leap(faults_->delay(2s)); });
  if (!facade && !supervisor) {
    actors_[arrival.name] = arrival.receiver;
    const bool chosen = kind == f.plan().victim;
    if (chosen && f.strikes(&FaultPlan::kill)) {
      witness_.dies_of(arrival);
      return {Kind::kill, {}};
    }
    if (chosen && f.strikes(&FaultPlan::kill_after)) {
      witness_.dies_of(arrival);
      return {Kind::kill_after, {}};
    }
  }
  if (!actors_.empty() && f.strikes(&FaultPlan::kill_anybody))
    kill_anybody();
  if (f.strikes(&FaultPlan::held_up))
    return {Kind::hold_up, f.delay(500ms)};
  if (!message_kinds()[std::size_t(kind)].in_any_order)
    return {};
  if (f.strikes(&FaultPlan::late))
    return {Kind::later, f.delay(500ms)};
  if (f.strikes(&FaultPlan::repeated))
    return {Kind::again, f.delay(500ms)};
  return {};
}

/// An actor that was seen before, whatever it is doing; every other time the draft, which has few
/// messages of its own to die of.
void SimulatedRun::kill_anybody() {
  auto victim = actors_.find("draft");
  if (victim == actors_.end() || faults_->count() % 2 == 0) {
    victim = actors_.begin();
    std::advance(victim, faults_->count() * 7 % int(actors_.size()));
  }
  witness_.dies(victim->first);
  caf::anon_send_exit(victim->second, caf::exit_reason::kill);
}

/// False: silence, or a bound, came first.
bool SimulatedRun::drive(const std::function<bool()>& reached) {
  const base::TimePoint begin = system_.now();
  for (; !reached(); ++report_.steps)
    if (report_.steps >= steps_max || system_.now() - begin > time_max || !system_.step())
      return false;
  return true;
}

/// Nothing is left to do: no message, no page.
void SimulatedRun::settle() {
  while (report_.steps < steps_max && system_.step()) // to the end of the longest sleep
    ++report_.steps;
  if (report_.steps >= steps_max)
    return fail("the engine never falls silent");
  check_ledger();
  witness_.settles();
}

void SimulatedRun::check_ledger() {
  std::optional<messages::ActorHandles> handles;
  system_.system().spawn(
      [&](caf::event_based_actor* self, const messages::SupervisorActor& asked) {
        self->request(asked, caf::infinite, messages::Ping{})
            .then(
                [&, self](const messages::ActorHandles& now) {
                  handles = now;
                  self->send(now.kv_cache, messages::Ping{});
                },
                [](const caf::error&) {});
      },
      supervisor_);
  system_.run();
  if (!handles)
    return; // the engine has ended
  if (telemetry_->running + telemetry_->waiting != 0)
    fail("the scheduler has sequences that nobody asked for");
  if (telemetry_->kv_pages_used != 0)
    fail(fmt::format("{} pages are used by nobody", telemetry_->kv_pages_used.load()));
  if (telemetry_->kv_pages_quarantined != 0)
    fail(fmt::format("{} pages stay in quarantine", telemetry_->kv_pages_quarantined.load()));
}

void SimulatedRun::close() {
  caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
  supervisor_ = nullptr;
  facade_ = nullptr;
  actors_.clear();
  while (system_.step()) // pieces under way
    ++report_.steps;
  if (const auto alive = system_.system().registry().running(); alive != 0)
    fail(fmt::format("{} actors are alive after shutdown", alive));
  for (const auto& [name, pool] :
       {std::pair{"target", target_pool_}, {"draft", draft_pool_}, {"reserve", reserve_pool_}})
    if (pool && pool->ledger().out != 0)
      fail(fmt::format("{} pages of the {} are held after shutdown", pool->ledger().out, name));
}

} // namespace

Report simulate(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options) {
  return SimulatedRun(seed, plan, options).run();
}

Shrunk shrink(std::uint64_t seed, const FaultPlan& plan) {
  Shrunk best{plan, {}, simulate(seed, plan)};
  const auto try_it = [&](const FaultPlan& smaller, const RunOptions& options) {
    Report report = simulate(seed, smaller, options);
    if (!report.failed())
      return false;
    best = {smaller, options, std::move(report)};
    return true;
  };
  for (const FaultField& field : fault_fields()) {
    FaultPlan without = best.plan;
    without.*field.probability = 0;
    if (best.plan.*field.probability > 0)
      try_it(without, best.options);
  }
  for (bool smaller = true; smaller && best.plan.faults_max > 0;) {
    FaultPlan fewer = best.plan;
    --fewer.faults_max;
    smaller = try_it(fewer, best.options);
  }
  for (bool smaller = true; smaller && best.report.requests > 1;)
    smaller = try_it(best.plan, {.log = false, .jobs_max = best.report.requests - 1});
  best.options.log = true;
  best.report = simulate(seed, best.plan, best.options);
  return best;
}

} // namespace paceline::testing
