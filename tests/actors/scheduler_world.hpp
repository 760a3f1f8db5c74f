// The scheduler alone: every neighbour is a mock, so a test says what each of them answers and sees
// what each of them is asked.
#pragma once

#include "actors/scheduler.hpp"
#include "tests/actors/mail.hpp"
#include "tests/actors/pools.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

namespace paceline::testing {

inline constexpr int page_tokens = 4;

inline gpu::PageTableRef table(int capacity) {
  std::vector<gpu::PageRef> pages;
  for (int tokens = 0; tokens < capacity; tokens += page_tokens)
    pages.push_back(std::make_shared<gpu::Page>());
  return gpu::PageTable::extend(nullptr, page_tokens, std::move(pages));
}

inline messages::KvGrant grant(messages::SequenceId sequence, int capacity) {
  messages::KvGrant grant;
  grant.sequence = sequence;
  grant.granted = true;
  grant.target = table(capacity);
  grant.draft = table(capacity);
  return grant;
}
inline messages::KvGrant refusal(messages::SequenceId sequence) {
  messages::KvGrant refusal;
  refusal.sequence = sequence;
  return refusal;
}

inline actors::SchedulerParts plain() {
  actors::SchedulerParts parts;
  parts.policy.mode = SpeculationMode::off;
  parts.max_model_len = 1000;
  parts.max_num_seqs = 4;
  parts.prefill_chunk = 16;
  parts.logit_rows = 64;
  parts.telemetry = std::make_shared<actors::Telemetry>();
  return parts;
}

inline actors::SchedulerParts drafting(SpeculationMode mode, int window) {
  actors::SchedulerParts parts = plain();
  parts.policy.mode = mode;
  parts.policy.window = window;
  parts.has_draft = true;
  return parts;
}

inline void draft_up_to(messages::Chain& chain, int end) {
  chain.bind(end);
  for (int position = chain.drawn(); position < end; ++position)
    chain.put(position, 5, nullptr);
}

struct SchedulerWorld {
  explicit SchedulerWorld(actors::SchedulerParts parts) {
    scheduler = simulation.spawn<actors::Scheduler>(parts);
    kv.mail->when<messages::KvReserve, messages::KvGrant>(
        [](const messages::KvReserve& asked) { return grant(asked.sequence, asked.capacity); });
    kv.mail->when<messages::KvGrow, messages::KvGrant>(
        [](const messages::KvGrow& asked) { return grant(asked.sequence, asked.capacity.target); });
    wire();
  }
  void wire(bool with_draft = true) {
    messages::Wiring wiring;
    wiring.version = ++wirings;
    wiring.facade = facade.actor;
    wiring.scheduler = scheduler;
    if (with_draft)
      wiring.draft = draft.actor;
    wiring.target = target->actor;
    wiring.sampler = sampler.actor;
    wiring.kv_cache = kv.actor;
    wiring.supervisor = supervisor.actor;
    simulation.tell(scheduler, wiring);
  }

  void admit(messages::SequenceId id, Tokens prompt, int max_tokens = 100, Tokens committed = {}) {
    auto spec = std::make_shared<messages::SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = int(prompt.size());
    spec->max_tokens = max_tokens;
    spec->end_of_text = {0};
    prompt.insert(prompt.end(), committed.begin(), committed.end());
    simulation.tell(scheduler, messages::Admit{spec, prompt});
  }

  /// The next batch; an armed one is passed over.
  messages::Batch batch() {
    messages::Batch batch = target->take<messages::Batch>();
    while (batch.after > 0)
      batch = target->take<messages::Batch>();
    return batch;
  }
  /// The next one, which has to be armed.
  messages::Batch armed_batch() {
    const auto batch = target->take<messages::Batch>();
    CHECK(batch.after > 0);
    return batch;
  }
  /// A batch of so many sequences; smaller ones are answered with a token each before it.
  messages::Batch batch_of(std::size_t sequences) {
    messages::Batch batch = this->batch();
    while (batch.entries.size() < sequences) {
      decode(batch, {7});
      facade.take<messages::Commits>();
      batch = this->batch();
    }
    return batch;
  }
  /// The verdict that commits `tokens`.
  static messages::Verdict verdict(const messages::BatchEntry& entry, Tokens tokens) {
    messages::Verdict v;
    v.sequence = entry.spec->id;
    v.epoch = entry.epoch;
    v.cached = entry.length;
    v.sources.assign(tokens.size(), TokenSource::target);
    v.tokens = std::move(tokens);
    v.next = entry.next_chain;
    return v;
  }
  void answer(const messages::Batch& batch, std::vector<messages::Verdict> sequences) {
    messages::Verdicts verdicts;
    verdicts.batch = batch.id;
    verdicts.sequences = std::move(sequences);
    simulation.tell(scheduler, verdicts);
  }
  /// Answers a batch of one sequence: these are its next tokens.
  void decode(const messages::Batch& batch, Tokens tokens) {
    answer(batch, {verdict(batch.entries.at(0), std::move(tokens))});
  }
  /// Admits a sequence of one token, whose first step says another; behind that it drafts a window
  /// up to `window_end` and on to `limit`, of which tokens up to `drawn` are there.
  messages::ChainRef begin_drafting(int window_end, int limit, int drawn) {
    admit(1, {1});
    const messages::Batch first = batch();
    messages::ChainRef chain = first.entries.at(0).next_chain;
    chain->begin(2, window_end, limit);
    if (drawn > chain->start())
      draft_up_to(*chain, drawn);
    decode(first, {7});
    return chain;
  }
  messages::Committed commits() {
    auto news = facade.take<messages::Commits>();
    REQUIRE(news.sequences.size() == 1);
    return news.sequences.front();
  }

  Simulation simulation{0, exact_order};
  Mock<messages::FacadeActor> facade{simulation};
  Mock<messages::KvCacheActor> kv{simulation};
  Mock<messages::DraftActor> draft{simulation};
  Mock<messages::SamplerActor> sampler{simulation};
  Mock<messages::SupervisorActor> supervisor{simulation};
  std::unique_ptr<Mock<messages::TargetActor>> target =
      std::make_unique<Mock<messages::TargetActor>>(simulation);
  messages::SchedulerActor scheduler;
  std::uint64_t wirings = 0;
};

/// The draft, as a verification leaves it: all positions up to `end` bound and drawn.
} // namespace paceline::testing
