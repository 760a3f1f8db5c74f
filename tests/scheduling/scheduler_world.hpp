// The plain scheduler with neighbours that a test plays: each keeps what it is told, and the test
// takes it out in order. No actor, no thread, and a clock that is a number.
#pragma once

#include "scheduling/scheduler.hpp"
#include "tests/support/pools.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <any>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::testing {

inline constexpr int page_tokens = 4;

inline gpu::PageTableRef table(int capacity) {
  std::vector<gpu::PageRef> pages;
  for (int tokens = 0; tokens < capacity; tokens += page_tokens)
    pages.push_back(std::make_shared<gpu::Page>());
  return gpu::PageTable::extend(nullptr, page_tokens, std::move(pages));
}

inline scheduling::KvGrant grant(speculation::SequenceId sequence, int capacity) {
  scheduling::KvGrant grant;
  grant.sequence = sequence;
  grant.granted = true;
  grant.tables = {table(capacity), table(capacity)};
  grant.cached = {0, 0};
  return grant;
}
inline scheduling::KvGrant refusal(speculation::SequenceId sequence) {
  scheduling::KvGrant refusal;
  refusal.sequence = sequence;
  return refusal;
}

inline scheduling::SchedulerConfig plain() {
  scheduling::SchedulerConfig config;
  config.policy.mode = SpeculationMode::off;
  config.max_model_len = 1000;
  config.max_num_seqs = 4;
  config.prefill_chunk = 16;
  config.logit_rows = 64;
  config.telemetry = std::make_shared<base::Telemetry>();
  return config;
}

inline scheduling::SchedulerConfig drafting(SpeculationMode mode, int window) {
  scheduling::SchedulerConfig config = plain();
  config.policy.mode = mode;
  config.policy.window = window;
  config.has_draft = true;
  config.draft_pool = 1;
  return config;
}

/// The draft, as a verification leaves it: all positions up to `end` bound and drawn.
inline void draft_up_to(speculation::Chain& chain, int end) {
  chain.bind(end);
  chain.spent({}, {std::chrono::milliseconds(1), {}});
  for (int position = chain.drawn(); position < end; ++position)
    chain.put(position, 5, nullptr);
}

struct SchedulerWorld {
  /// What one neighbour was told.
  class Neighbour {
  public:
    explicit Neighbour(SchedulerWorld& world) : world_(world) {}
    /// The next message, which must be of this type; time goes on until there is one.
    template <class Message>
    Message take() {
      world_.run_until([this] { return !empty(); });
      REQUIRE_MESSAGE(!empty(), "nothing came");
      const auto* message = std::any_cast<Message>(&mail_.front());
      REQUIRE_MESSAGE(message,
                      "another message came first: ", std::string(mail_.front().type().name()));
      Message taken = *message;
      mail_.pop_front();
      return taken;
    }
    /// The first message of this type that has come, if any; those before it are dropped.
    template <class Message>
    std::optional<Message> find() {
      const auto at = std::ranges::find_if(
          mail_, [](const std::any& message) { return message.type() == typeid(Message); });
      if (at == mail_.end())
        return std::nullopt;
      mail_.erase(mail_.begin(), at);
      return take<Message>();
    }
    bool empty() const { return mail_.empty(); }
    void clear() { mail_.clear(); }
    template <class Message>
    void put(Message message) {
      mail_.emplace_back(std::move(message));
    }

  private:
    SchedulerWorld& world_;
    std::deque<std::any> mail_;
  };
  using Actions = scheduling::Scheduler::Actions;

  explicit SchedulerWorld(scheduling::SchedulerConfig config) : scheduler(std::move(config)) {
    announce();
  }

  /// Tells who is there: the neighbours of before, but for what was changed here.
  void announce(bool with_draft = true) {
    ++peers.version;
    peers.draft = with_draft ? 1 : 0;
    carry_out(scheduler.peers_changed(peers, now));
  }
  /// The target has died, and has a successor.
  void replace_target() {
    ++peers.target;
    target.clear();
    target_ended = false;
    announce();
  }

  void admit(speculation::SequenceId id, Tokens prompt, int max_tokens = 100,
             Tokens committed = {}) {
    auto spec = std::make_shared<speculation::SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = int(prompt.size());
    spec->max_tokens = max_tokens;
    spec->end_of_text = {0};
    prompt.insert(prompt.end(), committed.begin(), committed.end());
    tell(scheduling::Admit{spec, prompt});
  }
  /// The same with all that a request may say. The prompt: tokens of this number.
  void admit(speculation::SequenceSpec spec) {
    const Tokens prompt(std::size_t(spec.prompt_tokens), 3);
    spec.end_of_text = {0};
    tell(scheduling::Admit{std::make_shared<speculation::SequenceSpec>(std::move(spec)), prompt});
  }
  void tell(scheduling::Admit request) {
    post([this, request] { return scheduler.admit(request, now); });
  }
  void tell(scheduling::Verdicts verdicts) {
    post([this, verdicts] { return scheduler.judged(verdicts, now); });
  }
  void abandon(speculation::SequenceId id) {
    post([this, id] { return scheduler.abandon(id, now); });
  }

  /// The next batch; a pre-enqueued one is passed over.
  scheduling::Batch batch() {
    scheduling::Batch batch = target.take<scheduling::Batch>();
    while (batch.after > 0)
      batch = target.take<scheduling::Batch>();
    return batch;
  }
  /// The next one, which has to be pre-enqueued.
  scheduling::Batch batch_behind() {
    const auto batch = target.take<scheduling::Batch>();
    CHECK(batch.after > 0);
    return batch;
  }
  /// A batch of so many sequences; smaller ones are answered with a token each before it.
  scheduling::Batch batch_of(std::size_t sequences) {
    scheduling::Batch batch = this->batch();
    while (batch.entries.size() < sequences) {
      decode(batch, {7});
      facade.take<scheduling::Commits>();
      batch = this->batch();
    }
    return batch;
  }
  /// The verdict that commits `tokens`.
  static scheduling::Verdict verdict(const scheduling::BatchEntry& entry, Tokens tokens) {
    scheduling::Verdict v;
    v.sequence = entry.spec->id;
    v.epoch = entry.epoch;
    v.cached = entry.length;
    v.sources.assign(tokens.size(), TokenSource::target);
    v.tokens = std::move(tokens);
    return v;
  }
  void answer(const scheduling::Batch& batch, std::vector<scheduling::Verdict> sequences,
              base::Duration busy = {}) {
    scheduling::Verdicts verdicts;
    verdicts.busy = busy;
    for (const scheduling::BatchEntry& entry : batch.entries)
      verdicts.rows += entry.length - entry.feed.cached + entry.round.window;
    verdicts.batch = batch.id;
    verdicts.sequences = std::move(sequences);
    tell(std::move(verdicts));
  }
  /// Answers a batch of one sequence: these are its next tokens.
  void decode(const scheduling::Batch& batch, Tokens tokens) {
    answer(batch, {verdict(batch.entries.at(0), std::move(tokens))});
  }
  /// Answers each entry that judges with the token 7, and the others with none.
  void go_on(const scheduling::Batch& batch, base::Duration busy = {}) {
    std::vector<scheduling::Verdict> verdicts;
    for (const scheduling::BatchEntry& entry : batch.entries)
      verdicts.push_back(verdict(entry, entry.round.judges ? Tokens{7} : Tokens{}));
    answer(batch, std::move(verdicts), busy);
  }
  /// Admits a sequence of one token, whose first step says another; behind that it drafts a window
  /// up to `window_end` and on to `limit`, of which tokens up to `drawn` are there.
  speculation::ChainRef begin_drafting(int window_end, int limit, int drawn) {
    admit(1, {1});
    const scheduling::Batch first = batch();
    speculation::ChainRef chain = first.entries.at(0).next.chain;
    chain->begin(2, window_end, limit);
    if (drawn > chain->start())
      draft_up_to(*chain, drawn);
    decode(first, {7});
    return chain;
  }
  scheduling::Committed commits() {
    auto news = facade.take<scheduling::Commits>();
    REQUIRE(news.sequences.size() == 1);
    return news.sequences.front();
  }

  /// Facts that wait, then alarms in their order; false where `reached` never was.
  bool run_until(const std::function<bool()>& reached) {
    for (int steps = 0; !reached(); ++steps)
      if (steps == steps_max || !step())
        return false;
    return true;
  }
  void run() {
    run_until([] { return false; });
  }

  static constexpr int steps_max = 10'000;
  base::TimePoint now{};
  scheduling::Peers peers{.version = 0, .draft = 1, .target = 1, .sampler = 1, .kv_cache = 1};
  scheduling::Scheduler scheduler;
  Neighbour facade{*this};
  Neighbour kv{*this};
  Neighbour draft{*this};
  Neighbour target{*this};
  Neighbour supervisor{*this};
  bool target_ended = false; ///< The scheduler has asked for that.
  bool draft_ended = false;
  /// How the cache manager answers.
  std::function<scheduling::KvGrant(const scheduling::KvReserve&)> on_reserve =
      [](const scheduling::KvReserve& asked) { return grant(asked.sequence, asked.capacity); };
  std::function<scheduling::KvGrant(const scheduling::KvGrow&)> on_grow =
      [](const scheduling::KvGrow& asked) { return grant(asked.sequence, asked.capacity); };

private:
  void post(std::function<Actions()> fact) { facts_.push_back(std::move(fact)); }
  bool step() {
    if (!facts_.empty()) {
      const auto fact = std::move(facts_.front());
      facts_.pop_front();
      carry_out(fact());
    } else if (!alarms_.empty()) {
      now = std::max(now, *alarms_.begin());
      alarms_.erase(alarms_.begin());
      carry_out(scheduler.time_passed(now));
    } else {
      return false;
    }
    return true;
  }
  void carry_out(Actions actions) {
    for (scheduling::Action& action : actions)
      std::visit([this](auto& what) { act(what); }, action);
  }

  void act(scheduling::Batch& batch) { target.put(batch); }
  void act(scheduling::Commits& news) { facade.put(news); }
  void act(scheduling::Failed& news) { facade.put(news); }
  void act(speculation::Frontiers& frontiers) { draft.put(frontiers); }
  void act(scheduling::Forget& forgotten) { draft.put(forgotten); }
  void act(scheduling::KvRelease& done) { kv.put(done); }
  void act(scheduling::KvPublish& valid) { kv.put(valid); }
  void act(scheduling::KvReset& reset) { kv.put(reset); }
  void act(scheduling::DisableDraft& request) { supervisor.put(request); }
  void act(scheduling::MoveTarget& request) { supervisor.put(request); }
  void act(scheduling::EndTarget&) { target_ended = true; }
  void act(scheduling::EndDraft&) { draft_ended = true; }
  void act(scheduling::WakeAfter& alarm) { alarms_.insert(now + alarm.delay); }
  void act(scheduling::AskReserve& question) {
    kv.put(question.wanted);
    post([this, asked = question.asked, answer = on_reserve(question.wanted)] {
      return scheduler.reserved(answer.sequence, asked, answer, now);
    });
  }
  void act(scheduling::AskGrow& question) {
    kv.put(question.wanted);
    post([this, residency = question.residency, answer = on_grow(question.wanted)] {
      return scheduler.grown(answer.sequence, residency, answer, now);
    });
  }
  void act(scheduling::AwaitWindows& wait) {
    const auto gate =
        std::make_shared<speculation::Gate>(int(wait.windows.size()), [this, ticket = wait.ticket] {
          post([this, ticket] { return scheduler.windows_ready(ticket, now); });
        });
    for (const auto& [chain, position] : wait.windows)
      chain->notify_at(position, gate);
  }

  std::deque<std::function<Actions()>> facts_;
  std::multiset<base::TimePoint> alarms_;
};

} // namespace paceline::testing
