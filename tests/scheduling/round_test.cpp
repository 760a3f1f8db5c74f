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

TEST_CASE("a verdict says how many tokens the draft itself expected to be accepted") {
  OneRound round;
  sampling::Guesses sure, doubtful;
  sure.count = doubtful.count = 1;
  sure.margin = 4;
  doubtful.margin = 0.2f;
  auto& early = round.entry.next.early_end;
  early.odds.by_margin[sampling::margin_class(sure.margin)] = 0.9;
  early.odds.by_margin[sampling::margin_class(doubtful.margin)] = 0.5;
  const auto chain = std::make_shared<Chain>(1);
  chain->begin(4, 6, 6);
  chain->bind(6);
  chain->put(4, 5, nullptr, sure);
  chain->put(5, 5, nullptr, doubtful);
  const auto expected = [&] {
    Verdict verdict;
    verdict.window = 2;
    note_guesses(round.entry, verdict);
    return verdict.expected;
  };
  early.least = 0.1;
  CHECK_FALSE(expected()); // there were no guesses
  round.entry.round.chain = chain;
  REQUIRE(expected());
  CHECK(*expected() == doctest::Approx(0.9 + 0.9 * 0.5));
  early.least = 0;
  CHECK_FALSE(expected());
}

TEST_CASE("a guess counts where a token was rejected, whatever came of it, and another was drawn") {
  OneRound round;
  const auto rank = [&](Tokens tokens, int judged, int path_judged) {
    Verdict verdict;
    verdict.window = 2;
    verdict.judged = judged;
    verdict.accepted = verdict.path_accepted = path_judged;
    verdict.path_judged = path_judged;
    verdict.tokens = std::move(tokens);
    note_guesses(round.entry, verdict);
    return std::pair(verdict.guesses, verdict.guess_rank);
  };
  const auto chain = std::make_shared<Chain>(1);
  const int length = round.entry.length;
  chain->begin(length, length + 2, length + 2);
  sampling::Guesses guesses;
  guesses.tokens = {6, 7};
  guesses.count = 2;
  for (int i = length; i < length + 2; ++i) {
    chain->bind(i + 1);
    chain->put(i, 5, nullptr, guesses);
  }
  round.entry.round.chain = chain;
  CHECK(rank({7}, 1, 0) == std::pair(2, 1));
  CHECK(rank({6, 4, 3}, 2, 1) == std::pair(2, 0)); // a path went on behind it
  CHECK(rank({}, 1, 0) == std::pair(0, -1));       // no token could be drawn
}

TEST_CASE("without a next chain nothing is drafted behind a miss") {
  OneRound round;
  round.entry.next = {};
  Verdict verdict = OneRound::miss();
  const Resolution resolved = turn_over(round.entry, verdict);
  CHECK(resolved.chain == nullptr);
  CHECK(resolved.window == 0);
}

TEST_CASE("nobody waits for a sequence that was cancelled, or has said its last token") {
  const auto over = [](const OneRound& round, Verdict verdict) {
    return turn_over(round.entry, verdict).over;
  };
  CHECK_FALSE(over(OneRound(), OneRound::hit()));
  CHECK_FALSE(over(OneRound(), OneRound::miss()));
  const OneRound cancelled;
  cancelled.entry.round.chain->close();
  CHECK(over(cancelled, OneRound::hit()));
  Verdict said_all = OneRound::miss();
  said_all.tokens.back() = 0;
  CHECK(over(OneRound(), said_all));
}

TEST_CASE("batches count in any order, and each once") {
  BatchOrder order;
  for (const std::uint64_t batch : {1, 2, 5}) {
    CHECK(order.is_due(batch));
    order.note(batch);
    CHECK_FALSE(order.is_due(batch));
  }
  CHECK(order.is_due(3));
  order.note(3);
  CHECK_FALSE(order.is_due(3));
  CHECK(order.is_due(4));
  CHECK_FALSE(order.is_due(2));
  order.note(200);
  CHECK_FALSE(order.is_due(4)); // too long ago
  CHECK(order.is_due(199));
}
