#include "tests/exactness/run.hpp"

#include "actors/supervisor.hpp"
#include "actors/system/timekeeper.hpp"
#include "execution/draft_step.hpp"
#include "execution/drafter_step.hpp"
#include "models/synthetic/scripted.hpp"
#include "models/synthetic/scripted_rows.hpp"
#include "tests/exactness/draft_there.hpp"
#include "tests/exactness/watched_device.hpp"
#include "tests/support/word_tokenizer.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace paceline::testing {
namespace {

/// Counts the callbacks that lanes ask for.
class CountingTime final : public base::Timekeeper {
public:
  explicit CountingTime(caf::actor_system& system) : time_(system) {}
  base::TimePoint now() const override { return time_.now(); }
  void after(base::Duration delay, std::function<void()> then) override {
    ++callbacks;
    time_.after(delay, std::move(then));
  }
  void stop() { time_.stop(); }

  std::size_t callbacks = 0;

private:
  actors::ActorTimekeeper time_;
};

/// How many requests have ended and in which modes, and why the last bad end was bad.
struct Ends {
  int count = 0;
  std::array<int, 3> modes{};
  std::string bad;
};

/// Where one request's tokens go.
class Collector final : public base::EventSink {
public:
  Collector(Tokens& tokens, Ends& ends) : tokens_(tokens), ends_(ends) {}
  void deliver(Event event) override {
    if (const auto* delta = std::get_if<Delta>(&event))
      tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
    if (const auto* end = std::get_if<Finished>(&event)) {
      ++ends_.count;
      ++ends_.modes[std::size_t(end->speculation.mode)];
      if (end->reason != FinishReason::length)
        ends_.bad = end->error ? end->error->text() : to_string(end->reason);
    }
  }

private:
  Tokens& tokens_;
  Ends& ends_;
};

/// Shows the adversary what a Drafter's call proposed.
class WatchedDrafter final : public Drafter {
public:
  WatchedDrafter(std::shared_ptr<Drafter> drafter, Probe& probe)
      : drafter_(std::move(drafter)), probe_(probe) {}
  void begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) override {
    drafter_->begin(sequence, tokens);
  }
  void end(std::uint64_t sequence, std::span<const TokenId> tokens) override {
    drafter_->end(sequence, tokens);
  }
  void propose(std::span<DraftTask* const> tasks) override {
    std::vector<std::size_t> had;
    for (const DraftTask* task : tasks)
      had.push_back(task->context().size());
    drafter_->propose(tasks);
    for (std::size_t i = 0; i < tasks.size(); ++i)
      for (const TokenId token : tasks[i]->context().subspan(had[i]))
        probe_.looked_up.emplace_back().token = token;
  }

private:
  std::shared_ptr<Drafter> drafter_;
  Probe& probe_;
};

class EngineRun {
public:
  explicit EngineRun(const Setting& setting)
      : setting_(setting), simulation_(setting.seed, setting.order),
        time_(std::make_shared<CountingTime>(simulation_.system())), moments_(setting.seed + 77) {
    probe_->last_position = int(setting.prompt.size()) + setting.length - 1;
    probe_->window = setting.policy.window.value_or(0);
  }
  ~EngineRun() {
    if (!there_) // who has a node asks it for ever whether it is there
      simulation_.run();
    if (supervisor_)
      simulation_.kill(supervisor_);
    supervisor_ = nullptr;
    wiring_ = {};
    if (there_)
      there_->close();
    simulation_.run();
    time_->stop();
    closer_->close();
  }
  EngineRun(const EngineRun&) = delete;

  Outcome run() {
    supervisor_ = simulation_.spawn<actors::Supervisor>(make_parts());
    wiring_ = simulation_.ask<messages::ActorHandles>(supervisor_, messages::Ping{}).value();
    outcome_.outputs.resize(std::size_t(setting_.requests));
    const base::TimePoint begin = simulation_.now();
    if (setting_.killed_every.count() > 0)
      kill_later();
    for (int submitted = 0; ends_.count < setting_.requests;) {
      while (submitted < setting_.requests && submitted - ends_.count < 2 * setting_.together)
        submit(submitted++);
      const int before = ends_.count;
      if (!simulation_.run_until([&] { return ends_.count > before || ++outcome_.steps == 0; },
                                 steps_max))
        throw std::runtime_error("a request does not end");
      if (ends_.count <= setting_.warm_up)
        probe_->seen = {};
    }
    if (!ends_.bad.empty())
      throw std::runtime_error("a request ended badly: " + ends_.bad);
    outcome_.time = simulation_.now() - begin;
    outcome_.callbacks = time_->callbacks;
    outcome_.metrics = telemetry_->snapshot();
    outcome_.seen = probe_->seen;
    outcome_.modes = ends_.modes;
    outcome_.outputs.erase(outcome_.outputs.begin(),
                           outcome_.outputs.begin() +
                               std::min(setting_.warm_up, setting_.requests));
    return std::move(outcome_);
  }

private:
  std::shared_ptr<gpu::Device> make_device(const World& coarse, int number) {
    const auto rules = setting_.coarse ? std::make_shared<CoarseRules>(coarse) : nullptr;
    Pace pace = setting_.pace;
    pace.target /= setting_.stages;
    return make_watched_device({time_, pace, setting_.seed + 1009 * std::uint64_t(number), probe_,
                                setting_.queues, rules});
  }

  std::shared_ptr<gpu::Device> make_stage(const World& coarse, int stage) {
    std::vector<std::shared_ptr<gpu::Device>> shards;
    for (int i = 0; i < setting_.shards; ++i)
      shards.push_back(make_device(coarse, stage * setting_.shards + i));
    return shards.size() > 1 ? shards.front()->make_group(shards).value() : shards.front();
  }

  std::shared_ptr<gpu::KvPool> make_pool(const models::Model& model, int page_tokens) {
    const std::size_t pages = 4096 + std::size_t(setting_.length);
    return gpu::KvPool::create(model.device(), model.kv_shape(page_tokens), pages).value();
  }

  /// Null: the words are the same.
  std::shared_ptr<const text::VocabularyMap> make_map() const {
    if (setting_.draft_words.empty())
      return nullptr;
    return text::map_vocabularies(WordTokenizer(setting_.words),
                                  WordTokenizer(setting_.draft_words))
        .value();
  }

  /// Who is killed all the time is started again, and its sequences are recomputed, all the time.
  FaultOptions faults() const {
    FaultOptions faults;
    if (!setting_.gives_up)
      faults.stall_patience = {};
    if (setting_.killed_every.count() > 0) {
      faults.restarts_max = faults.recomputations_max = std::numeric_limits<int>::max();
      faults.restart_pause_max = faults.restart_pause;
    }
    return faults;
  }

  actors::EngineParts make_parts() {
    const World coarse = setting_.coarse ? coarse_world(setting_.length) : World();
    std::vector<std::shared_ptr<gpu::Device>> devices;
    while (int(devices.size()) < setting_.stages)
      devices.push_back(make_stage(coarse, int(devices.size())));
    const auto device = setting_.shards > 1 ? devices[0]->shards().front() : devices[0];
    const auto stages = models::make_scripted_stages(setting_.target, devices).value();
    const auto& target = stages.front();
    const auto draft = models::make_scripted(setting_.draft(), device).value();
    const int vocabulary = setting_.target.vocabulary;
    const int context = int(setting_.prompt.size()) + setting_.length;
    const int logit_rows =
        setting_.together * (setting_.policy.window_limit + 1 + setting_.policy.tree_rows_max);

    actors::EngineParts parts;
    parts.telemetry = telemetry_;
    parts.facade = {models::make_scripted_tokenizer(target->info().name).value(), telemetry_, 0};
    parts.scheduler.policy = setting_.policy;
    parts.scheduler.has_draft = true;
    parts.scheduler.max_model_len = context;
    parts.scheduler.max_num_seqs = setting_.together;
    parts.scheduler.stages = setting_.stages;
    parts.scheduler.prefill_chunk = setting_.prefill_chunk;
    parts.scheduler.logit_rows = logit_rows;
    parts.scheduler.telemetry = telemetry_;
    parts.scheduler.faults = faults();
    parts.faults = faults();
    const bool forms = setting_.forms != Setting::Forms::none;
    parts.scheduler.forms_draft = forms;
    if (forms || setting_.beside_model)
      parts.scheduler.drafters = telemetry_->drafters = drafters();
    if (forms)
      telemetry_->drafters.emplace_back(scheduling::form_drafter);
    if (setting_.forms == Setting::Forms::alone)
      parts.scheduler.policy.mode = SpeculationMode::off;
    const auto map = make_map();
    parts.target = {{target, devices[0], make_pool(*target, setting_.page_tokens)},
                    setting_.prefill_chunk + logit_rows,
                    logit_rows,
                    closer_,
                    telemetry_};
    for (std::size_t i = 1; i < stages.size(); ++i)
      parts.target.behind.push_back(
          {stages[i], devices[i], make_pool(*stages[i], setting_.page_tokens)});
    const bool by_model = !drafters().empty() && drafters().back() == "model";
    parts.sampler = {vocabulary, by_model ? 1 : 0, telemetry_}; // a Drafter draws nothing
    if (!by_model) {
      parts.draft = drafter_parts(device);
      return parts;
    }
    if (setting_.one_way.count() > 0) {
      parts.draft = draft_there(draft, device, context);
      return parts;
    }
    parts.draft_pool = make_pool(*draft, (map ? 2 : 1) * setting_.page_tokens);
    parts.scheduler.draft_pool = 1;
    execution::DraftStep::Parts drafting{draft,
                                         device,
                                         parts.draft_pool,
                                         vocabulary,
                                         setting_.together,
                                         setting_.policy.fork_rows,
                                         telemetry_,
                                         setting_.q_rows,
                                         nullptr,
                                         map};
    if (setting_.beside_model) {
      drafting.lookup = std::make_shared<execution::DrafterHost>(setting_.drafter(), telemetry_);
      parts.scheduler.policy.lookup = true;
    }
    if (forms || setting_.beside_model)
      drafting.lookup_device = device;
    const auto make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                                      const std::shared_ptr<gpu::Device>&) {
      return std::make_shared<execution::DraftStep>(drafting, std::move(queue));
    };
    parts.draft = actors::DraftModelParts{device, make_step, closer_, telemetry_};
    return parts;
  }

  actors::DraftModelParts draft_there(std::shared_ptr<const models::Model> model,
                                      const std::shared_ptr<gpu::Device>& device, int context) {
    DraftThere what;
    what.time = time_;
    what.one_way = setting_.one_way;
    what.model = std::move(model);
    what.device = what.host = device;
    what.closer = closer_;
    what.telemetry = telemetry_;
    what.page_tokens = setting_.page_tokens;
    what.hello.vocabulary = setting_.target.vocabulary;
    what.hello.max_model_len = context;
    what.hello.max_num_seqs = setting_.together;
    what.hello.fork_rows = setting_.policy.fork_rows;
    what.q_rows = setting_.q_rows;
    there_ = std::make_shared<NodeOfDraft>(std::move(what));
    actors::DraftModelParts parts;
    parts.telemetry = telemetry_;
    parts.remote = nodes::make_proxy(there_->parts());
    return parts;
  }

  /// The names of what drafts beside the forms of answers.
  std::vector<std::string> drafters() const {
    if (setting_.forms == Setting::Forms::alone)
      return {};
    if (!setting_.drafter)
      return {"model"};
    return setting_.beside_model ? std::vector<std::string>{"suffix", "model"}
                                 : std::vector<std::string>{"suffix"};
  }

  actors::DraftModelParts drafter_parts(std::shared_ptr<gpu::Device> device) {
    std::shared_ptr<execution::DrafterHost> host;
    if (setting_.forms != Setting::Forms::alone)
      host = std::make_shared<execution::DrafterHost>(
          std::make_shared<WatchedDrafter>(setting_.drafter(), *probe_), telemetry_);
    const execution::DrafterStep::Parts drafting{host, device, setting_.target.vocabulary,
                                                 telemetry_, setting_.q_rows};
    const auto make_step = [drafting](std::shared_ptr<execution::DraftQueue> queue,
                                      const std::shared_ptr<gpu::Device>&) {
      return std::make_shared<execution::DrafterStep>(drafting, std::move(queue));
    };
    return {std::move(device), make_step, closer_, telemetry_};
  }

  void submit(int n) {
    speculation::SequenceSpec spec;
    spec.id = std::uint64_t(n) + 1;
    spec.prompt_tokens = int(setting_.prompt.size());
    spec.max_tokens = setting_.length;
    spec.warping = setting_.warping;
    spec.rule = setting_.rule;
    spec.noise = setting_.noise(n);
    if (setting_.vary)
      setting_.vary(spec, n);
    scheduling::Submit request;
    request.spec = std::make_shared<const speculation::SequenceSpec>(std::move(spec));
    request.prompt = setting_.prompt;
    request.sink = std::make_shared<Collector>(outcome_.outputs[std::size_t(n)], ends_);
    simulation_.tell(wiring_.facade, std::move(request));
  }

  /// Somebody dies after an exponential time, whatever goes on then; and so on.
  void kill_later() {
    const double u = double((moments_() >> 11) + 1) * 0x1p-53;
    const auto victim = std::size_t(moments_() % 5);
    time_->after(base::from_seconds(-std::log(u) * base::seconds(setting_.killed_every)),
                 [this, victim] {
                   if (ends_.count == setting_.requests)
                     return;
                   kill(victim);
                   kill_later();
                 });
  }
  void kill(std::size_t victim) {
    simulation_.system().spawn(
        [this, victim](caf::event_based_actor* self, const messages::SupervisorActor& asked) {
          self->request(asked, caf::infinite, messages::Ping{})
              .then(
                  [this, victim](const messages::ActorHandles& now) {
                    const auto& stage = now.stages[moments_() % now.stages.size()];
                    const std::array actors{caf::actor_cast<caf::actor>(now.scheduler),
                                            caf::actor_cast<caf::actor>(now.draft),
                                            caf::actor_cast<caf::actor>(stage),
                                            caf::actor_cast<caf::actor>(now.sampler),
                                            caf::actor_cast<caf::actor>(now.kv_cache)};
                    outcome_.kills += bool(actors[victim]);
                    if (actors[victim])
                      simulation_.kill(actors[victim]);
                  },
                  [](const caf::error&) {});
        },
        supervisor_);
  }

  static constexpr std::size_t steps_max = 100'000'000;

  const Setting& setting_;
  Outcome outcome_;
  Ends ends_;
  std::shared_ptr<Probe> probe_ = std::make_shared<Probe>();
  std::shared_ptr<base::Telemetry> telemetry_ = std::make_shared<base::Telemetry>();
  std::shared_ptr<execution::LaneCloser> closer_ = std::make_shared<execution::LaneCloser>(true);
  Simulation simulation_;
  std::shared_ptr<CountingTime> time_;
  std::mt19937_64 moments_;            ///< Of kills.
  std::shared_ptr<NodeOfDraft> there_; ///< Null: the draft is in the engine.
  messages::SupervisorActor supervisor_;
  messages::ActorHandles wiring_;
};

Row warped_row(const models::ScriptedOptions& model, const Setting& setting, const Tokens& output) {
  Tokens tokens = setting.prompt;
  tokens.insert(tokens.end(), output.begin(), output.end());
  Row logits;
  for (const double p : models::scripted_row(model, tokens))
    logits.push_back(p > 0 ? float(std::log(p)) : -std::numeric_limits<float>::infinity());
  Row row(logits.size());
  sampling::WarpScratch scratch;
  if (!sampling::warp(logits, model.vocabulary, setting.warping,
                      {tokens, setting.prompt.size(), {}}, scratch, row))
    throw std::runtime_error("a scripted row is no distribution");
  return row;
}

} // namespace

sampling::Noise Setting::noise(int n) const {
  return {sampling::noise({seed, 0, std::uint32_t(n)}, 0).word[0] | std::uint64_t(n) << 32, 0};
}

Outcome run(const Setting& setting) {
  return EngineRun(setting).run();
}

World world_of(const Setting& setting) {
  if (setting.coarse)
    return coarse_world(setting.length);
  const auto rows = [setting](const models::ScriptedOptions& model) {
    return Rows([=](const Tokens& output) { return warped_row(model, setting, output); });
  };
  return {setting.target.vocabulary, setting.length, rows(setting.target), rows(setting.draft())};
}

} // namespace paceline::testing
