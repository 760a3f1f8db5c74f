// What goes on behind a verdict.
#include "scheduling/batch_order.hpp"
#include "scheduling/round.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace paceline;
using namespace paceline::scheduling;

namespace {

using Tokens = std::vector<TokenId>;

/// A window of two at position 4, drafted with its lookahead: tokens 5, 5, 5, ...
struct OneRound {
  explicit OneRound(SequenceId id = 1) {
    auto spec = std::make_shared<SequenceSpec>();
    spec->id = id;
    spec->end_of_text = {0};
    entry.spec = spec;
    entry.length = 4;
    entry.round.chain = std::make_shared<Chain>(id);
    entry.round.chain->begin(4, 6, 9);
    entry.round.chain->bind(9);
    for (int position = 4; position < 9; ++position)
      entry.round.chain->put(position, 5, nullptr);
    entry.round.window = 2;
    entry.round.whole = true;
    entry.round.judge_lookahead = true;
    entry.next.chain = std::make_shared<Chain>(id);
    entry.next.window = 2;
    entry.next.lookahead = 3;
  }
  ChainRef add_fork(int position, TokenId token) const {
    const auto fork = std::make_shared<Chain>(entry.spec->id);
    fork->begin_fork(position + 1, position + 3, entry.length, 1);
    entry.round.chain->add_fork(position, token, fork);
    return fork;
  }
  static Verdict hit() {
    Verdict verdict;
    verdict.tokens = {5, 5, 5};
    verdict.hit = Hit::chain;
    return verdict;
  }
  static Verdict miss() {
    Verdict verdict;
    verdict.tokens = {5, 7};
    return verdict;
  }

  BatchEntry entry;
};

} // namespace

TEST_CASE("after a full hit the chain goes on, as far as was planned") {
  const OneRound round;
  Verdict verdict = OneRound::hit();
  const Resolution resolved = turn_over(round.entry, verdict);
  CHECK(resolved.chain == round.entry.round.chain);
  CHECK(resolved.length == 7);
  CHECK(resolved.window == 2);
  CHECK(resolved.chain->window_end() == 9);
  CHECK(resolved.chain->limit() == 12);
  CHECK_FALSE(resolved.chain->closed());
}

TEST_CASE("after a miss the next chain begins where the verdict ends") {
  const OneRound round;
  Verdict verdict = OneRound::miss();
  const Resolution resolved = turn_over(round.entry, verdict);
  CHECK(resolved.chain == round.entry.next.chain);
  CHECK(resolved.chain->start() == 6);
  CHECK(resolved.chain->window_end() == 8);
  CHECK(resolved.chain->limit() == 11);
  CHECK(round.entry.round.chain->closed());
}

TEST_CASE("a fork for just this outcome goes on, and all others end") {
  const OneRound round;
  const ChainRef taken = round.add_fork(5, 7);
  const ChainRef other = round.add_fork(5, 8);
  Verdict verdict = OneRound::miss();
  const Resolution resolved = turn_over(round.entry, verdict);
  CHECK(verdict.hit == Hit::fork);
  CHECK(resolved.chain == taken);
  CHECK_FALSE(taken->closed());
  CHECK(other->closed());
}

TEST_CASE("who hears of a verdict later finds what the lane went on with") {
  const auto same_later = [](const OneRound& round, Verdict verdict) {
    const Resolution lane = turn_over(round.entry, verdict);
    round.add_fork(5, 7); // the draft had not yet heard that its chain was closed
    const Resolution later = resolve(round.entry, verdict);
    return later.chain == lane.chain && later.length == lane.length &&
           later.window == lane.window && later.limit == lane.limit;
  };
  CHECK(same_later(OneRound(), OneRound::hit()));
  CHECK(same_later(OneRound(), OneRound::miss()));
  const OneRound forked;
  forked.add_fork(5, 7);
  CHECK(same_later(forked, OneRound::miss()));
}

TEST_CASE("without a next chain nothing is drafted behind a miss") {
  OneRound round;
  round.entry.next = {};
  Verdict verdict = OneRound::miss();
  const Resolution resolved = turn_over(round.entry, verdict);
  CHECK(resolved.chain == nullptr);
  CHECK(resolved.window == 0);
}

namespace {

/// Which of these rounds go on with the pre-enqueued batch.
std::vector<bool> go_on(const std::vector<OneRound>& rounds, std::vector<Verdict> verdicts) {
  std::vector<BatchEntry> entries;
  std::vector<Resolution> resolved;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    entries.push_back(rounds[i].entry);
    resolved.push_back(turn_over(entries[i], verdicts[i]));
  }
  let_go_on(entries, resolved, verdicts);
  std::vector<bool> on;
  for (const Verdict& verdict : verdicts)
    on.push_back(verdict.goes_on);
  return on;
}

using On = std::vector<bool>;

} // namespace

TEST_CASE("a pre-enqueued batch runs for all of a batch that hit") {
  CHECK(go_on({OneRound(1), OneRound(2)}, {OneRound::hit(), OneRound::hit()}) == On{true, true});
}

TEST_CASE("a pre-enqueued batch runs for nobody where one of a batch missed") {
  CHECK(go_on({OneRound(1), OneRound(2)}, {OneRound::hit(), OneRound::miss()}) == On{false, false});
  CHECK(go_on({OneRound(1), OneRound(2)}, {OneRound::miss(), OneRound::hit()}) == On{false, false});
}

TEST_CASE("a pre-enqueued batch runs without those that are over") {
  const OneRound cancelled(1);
  cancelled.entry.round.chain->close();
  CHECK(go_on({cancelled, OneRound(2)}, {OneRound::hit(), OneRound::hit()}) == On{false, true});
  Verdict said_all = OneRound::miss();
  said_all.tokens.back() = 0;
  CHECK(go_on({OneRound(1), OneRound(2)}, {said_all, OneRound::hit()}) == On{false, true});
}

TEST_CASE("a pre-enqueued batch runs for nobody where a window was not all there to be judged") {
  Verdict shorter = OneRound::hit(); // its second token came after the pass had begun
  shorter.tokens.pop_back();
  CHECK(go_on({OneRound(1), OneRound(2)}, {OneRound::hit(), shorter}) == On{false, false});
}

TEST_CASE("a pre-enqueued batch runs for nobody where a next window is not bound as a whole") {
  OneRound longer(2);
  longer.entry.next.window = 3; // of which two are bound
  CHECK(go_on({OneRound(1), longer}, {OneRound::hit(), OneRound::hit()}) == On{false, false});
}

TEST_CASE("of a target in stages batches come in any order, each once; on one device in theirs") {
  for (const bool stages : {false, true}) {
    CAPTURE(stages);
    BatchOrder order;
    for (const std::uint64_t batch : {1, 2, 5}) {
      CHECK(order.is_due(batch, stages));
      order.note(batch);
      CHECK_FALSE(order.is_due(batch, stages));
    }
    CHECK(order.last() == 5);
    CHECK(order.is_due(3, stages) == stages);
    order.note(3);
    CHECK_FALSE(order.is_due(3, stages));
    CHECK(order.is_due(4, stages) == stages);
    CHECK_FALSE(order.is_due(2, stages));
    order.note(200);
    CHECK_FALSE(order.is_due(4, stages)); // too long ago
    CHECK(order.is_due(199, stages) == stages);
  }
}
