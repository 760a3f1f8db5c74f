// The target and the draft actor, each alone: a scripted model on a simulated device, and mocks.
#include "actors/draft_model.hpp"
#include "actors/draft_step.hpp"
#include "actors/target_model.hpp"
#include "messages/timekeeper.hpp"
#include "models/scripted.hpp"
#include "tests/actors/mail.hpp"
#include "tests/actors/pools.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

constexpr int vocabulary = 8;
constexpr int page_tokens = 4;

/// A scripted model whose every pass takes 10 ms of virtual time, and pages for it.
struct World {
  World()
      : clock(std::make_shared<ActorTimekeeper>(simulation.system())),
        device(gpu::open_device("sim:10ms", {.threads = 1, .time = clock, .trace = {}}).value()),
        model(models::make_scripted(script, device).value()),
        pool(gpu::KvPool::create(*device, model->kv_shape(page_tokens), 64).value()),
        reaper(std::make_shared<LaneReaper>(true)) {}
  ~World() {
    clock->stop();
    reaper->close();
  }

  gpu::PageTableRef pages(int capacity) {
    std::vector<gpu::PageRef> more;
    for (int tokens = 0; tokens < capacity; tokens += page_tokens)
      more.push_back(pool->take());
    return gpu::PageTable::extend(nullptr, page_tokens, std::move(more));
  }
  static SequenceSpecRef greedy(SequenceId id, int prompt_tokens) {
    auto spec = std::make_shared<SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = prompt_tokens;
    spec->max_tokens = 100;
    return spec;
  }
  /// The likeliest token after each of the last few.
  TokenId likeliest(const Tokens& context) const {
    const auto row = models::scripted_row(script, context);
    return TokenId(std::max_element(row.begin(), row.end()) - row.begin());
  }

  models::ScriptedOptions script{.vocabulary = vocabulary, .memory = 2, .seed = 3};
  std::shared_ptr<Telemetry> telemetry = std::make_shared<Telemetry>();
  Simulation simulation{0, exact_order};
  std::shared_ptr<ActorTimekeeper> clock;
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<gpu::KvPool> pool;
  std::shared_ptr<LaneReaper> reaper;
};

struct TargetWorld : World {
  TargetWorld() {
    target = simulation.spawn<TargetModel>(
        TargetModelParts{model, device, pool, 32, 8, reaper, telemetry});
    Wiring wiring;
    wiring.version = 1;
    wiring.sampler = sampler.actor;
    simulation.tell(target, wiring);
  }
  ~TargetWorld() {
    simulation.kill(target);
    simulation.run();
  }
  BatchEntry entry(const Tokens& tokens) {
    BatchEntry entry;
    entry.spec = greedy(1, int(tokens.size()));
    entry.log = std::make_shared<TokenLog>(tokens, 100);
    entry.length = int(tokens.size());
    entry.pages = pages(32);
    return entry;
  }

  Mock<SamplerActor> sampler{simulation};
  TargetActor target;
};

struct DraftWorld : World {
  DraftWorld() {
    const DraftStep::Parts drafting{model, device, pool, vocabulary, 4, 15, telemetry};
    draft = simulation.spawn<DraftModel>(
        DraftModelParts{device,
                        [drafting](std::shared_ptr<DraftBoard> board) {
                          return std::make_shared<DraftStep>(drafting, std::move(board));
                        },
                        reaper, telemetry});
  }
  ~DraftWorld() {
    simulation.kill(draft);
    simulation.run();
  }
  Frontier frontier(SequenceId id, const Tokens& committed, Epoch epoch, int window,
                    int lookahead) {
    Frontier at;
    at.spec = greedy(id, int(committed.size()));
    at.log = std::make_shared<TokenLog>(committed, 100);
    at.log_length = int(committed.size());
    at.epoch = epoch;
    at.chain = std::make_shared<Chain>(id);
    at.chain->begin(at.length(), at.length() + window, at.length() + window + lookahead);
    at.pages = pages(32);
    at.residence = std::make_shared<Residence>();
    at.residence->epoch = epoch;
    return at;
  }
  bool drawn(const Chain& chain, int end) {
    return simulation.run_until([&] { return chain.drawn() >= end; });
  }

  DraftActor draft;
};

} // namespace

// ---- target ----

TEST_CASE("the sampler gets the logits' handle at once, and the pass runs on the lane meanwhile") {
  TargetWorld world;
  Batch batch;
  batch.id = 5;
  batch.entries.push_back(world.entry({1, 2, 3}));
  batch.entries.push_back(world.entry({4, 5}));
  const auto begin = world.simulation.now();
  world.simulation.tell(world.target, batch);
  const auto logits = world.sampler.take<Logits>();
  CHECK(world.simulation.now() == begin);
  CHECK_FALSE(logits.pass->retirement.completed);
  CHECK(world.simulation.ask<Pong>(world.target, Ping{})); // in the middle of a pass
  CHECK(world.simulation.now() == begin);
  REQUIRE(world.simulation.run_until([&] { return logits.pass->retirement.completed; }));
  CHECK(world.simulation.now() - begin == 10ms);
  CHECK(logits.pass->batch.id == 5);
  REQUIRE(logits.pass->rows.size() == 2);
  const gpu::Tensor rows = logits.pass->workspace->logits();
  for (const auto& [index, tokens] : {std::pair{0, Tokens{1, 2, 3}}, std::pair{1, Tokens{4, 5}}}) {
    const auto& part = logits.pass->rows[std::size_t(index)];
    CHECK(part.logit_rows == 1);
    const float* row = rows.row(part.first_logit_row);
    CHECK(TokenId(std::max_element(row, row + vocabulary) - row) == world.likeliest(tokens));
  }
}

TEST_CASE("bound tokens that are not there in time are not part of the pass") {
  TargetWorld world;
  Batch batch;
  batch.id = 1;
  batch.patience = 50ms;
  BatchEntry entry = world.entry({1, 2, 3});
  entry.chain = std::make_shared<Chain>(1);
  entry.chain->begin(3, 6, 6);
  entry.chain->bind(6);
  entry.chain->put(3, 7, nullptr);
  entry.window = 3;
  batch.entries.push_back(entry);
  world.simulation.tell(world.target, batch);
  const auto logits = world.sampler.take<Logits>();
  const auto begin = world.simulation.now();
  REQUIRE(world.simulation.run_until([&] { return logits.pass->retirement.completed; }));
  CHECK(world.simulation.now() - begin >= 50ms); // it waited, and no longer than it may
  CHECK(world.simulation.now() - begin <= 70ms);
  CHECK(logits.pass->rows[0].window == 1);
  CHECK(logits.pass->rows[0].tokens == Tokens{1, 2, 3, 7});
}

namespace {

/// A batch whose sequence has a whole window {4, 5}, and what a full hit would have behind it.
struct ArmedPair {
  explicit ArmedPair(TargetWorld& world) {
    BatchEntry entry = world.entry({1, 2, 3});
    entry.chain = std::make_shared<Chain>(1);
    entry.chain->begin(3, 5, 10);
    entry.chain->bind(8);
    for (int position = 3; position < 8; ++position)
      entry.chain->put(position, TokenId(position + 1) % vocabulary, nullptr);
    entry.window = 2;
    entry.whole = true;
    first.id = 1;
    first.entries.push_back(entry);
    entry.assumed = 3;
    entry.length = 6;
    entry.cached = 5;
    armed.id = 2;
    armed.after = 1;
    armed.entries.push_back(entry);
  }
  Batch first;
  Batch armed;
};

} // namespace

TEST_CASE("an armed pass feeds what the log does not have yet, for who goes on") {
  for (const bool goes_on : {true, false}) {
    CAPTURE(goes_on);
    TargetWorld world;
    const ArmedPair pair(world);
    world.simulation.tell(world.target, pair.first);
    world.simulation.tell(world.target, pair.armed);
    const auto first = world.sampler.take<Logits>();
    const auto armed = world.sampler.take<Logits>();
    REQUIRE(armed.step); // it is the sampler's to enqueue
    REQUIRE(world.simulation.run_until([&] { return first.pass->retirement.completed; }));
    first.pass->rows.at(0).goes_on = goes_on; // the verification's part
    const auto begin = world.simulation.now();
    REQUIRE(armed.lane->submit(armed.step));
    REQUIRE(world.simulation.run_until([&] { return armed.pass->retirement.completed; }));
    CHECK_FALSE(armed.pass->before);
    CHECK(world.simulation.now() - begin == (goes_on ? 10ms : 0ms));
    REQUIRE(armed.pass->batch.entries.size() == std::size_t(goes_on));
    if (!goes_on)
      continue;
    const auto& rows = armed.pass->rows.at(0);
    CHECK(rows.prefix == Tokens{4, 5, 6});
    CHECK(rows.tokens == Tokens{6, 7, 0});
    CHECK(rows.window == 2);
    CHECK(rows.logit_rows == 3);
    const float* row = armed.pass->workspace->logits().row(rows.first_logit_row);
    CHECK(TokenId(std::max_element(row, row + vocabulary) - row) ==
          world.likeliest({1, 2, 3, 4, 5, 6}));
  }
}

TEST_CASE("an armed batch is dropped where the one before has not come, or is over") {
  TargetWorld world;
  const ArmedPair pair(world);
  world.simulation.tell(world.target, pair.armed); // it overtook the one before
  world.simulation.tell(world.target, pair.first);
  {
    const auto first = world.sampler.take<Logits>();
    CHECK(first.pass->batch.id == 1); // which runs all the same
    REQUIRE(world.simulation.run_until([&] { return first.pass->retirement.completed; }));
  }
  world.simulation.tell(world.target, pair.armed); // nobody has the first pass any more
  world.simulation.run();
  CHECK(world.sampler.mail->empty());
}

// ---- draft ----

TEST_CASE("the draft reads the prompt, writes the window and goes on to the lookahead's end") {
  DraftWorld world;
  const Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 2, 2);
  world.simulation.tell(world.draft, Frontiers{{at}});
  REQUIRE(world.drawn(*at.chain, 7));
  Tokens context{1, 2, 3};
  for (int position = 3; position < 7; ++position) {
    CHECK(at.chain->token(position) == world.likeliest(context));
    context.push_back(at.chain->token(position));
  }
  world.simulation.run();
  CHECK(at.chain->drawn() == 7); // and no further
  CHECK(at.chain->bound() == 7);
}

TEST_CASE("a newer frontier takes effect between two tokens, an older one never") {
  DraftWorld world;
  const Frontier first = world.frontier(1, {1, 2, 3}, {1, 1}, 8, 0);
  world.simulation.tell(world.draft, Frontiers{{first}});
  REQUIRE(world.drawn(*first.chain, 5));
  Frontier second = first; // the verdict: 3's follower was right, then came another
  second.tokens = {first.chain->token(3), 6};
  second.epoch = {1, 2};
  second.chain = std::make_shared<Chain>(1);
  second.chain->begin(5, 7, 7);
  first.chain->close();
  world.simulation.tell(world.draft, Frontiers{{second}});
  world.simulation.tell(world.draft, Frontiers{{first}}); // late
  REQUIRE(world.drawn(*second.chain, 7));
  world.simulation.run();
  CHECK(first.chain->drawn() <= 6);
  CHECK(second.chain->token(5) == world.likeliest({1, 2, 3, first.chain->token(3), 6}));
}

TEST_CASE("all sequences advance by one token in each pass") {
  DraftWorld world;
  const Frontier a = world.frontier(1, {1, 2}, {1, 1}, 3, 0);
  const Frontier b = world.frontier(2, {3, 4}, {1, 2}, 3, 0);
  const auto begin = world.simulation.now();
  world.simulation.tell(world.draft, Frontiers{{a, b}});
  REQUIRE(world.drawn(*a.chain, 5));
  REQUIRE(world.drawn(*b.chain, 5));
  CHECK(world.simulation.now() - begin == 30ms); // not 60
}

TEST_CASE("a forgotten sequence is drafted no more, and its pages are let go") {
  DraftWorld world;
  const std::size_t before = world.pool->ledger().free;
  std::weak_ptr<const gpu::PageTable> pages;
  ChainRef chain;
  {
    const Frontier at = world.frontier(1, {1, 2}, {1, 1}, 20, 0);
    pages = at.pages;
    chain = at.chain;
    world.simulation.tell(world.draft, Frontiers{{at}});
    REQUIRE(world.drawn(*chain, 4));
    at.residence->over.store(true);
    world.simulation.tell(world.draft, Forget{});
    world.simulation.tell(world.draft, Frontiers{{at}}); // a hint that was late
  }
  world.simulation.run();
  CHECK(chain->drawn() < 8);
  CHECK(pages.expired());
  CHECK(world.pool->ledger().free == before);
}

TEST_CASE("the draft answers in the middle of a pass, and its inbox outlives it") {
  DraftWorld world;
  const Frontier at = world.frontier(1, {1, 2}, {1, 1}, 4, 0);
  world.simulation.tell(world.draft, Frontiers{{at}});
  world.simulation.run_until([&] { return at.chain->bound() > 2; });
  const auto begin = world.simulation.now();
  const auto lent = world.simulation.ask<Lent>(world.draft, Borrow{});
  REQUIRE(lent);
  CHECK(world.simulation.now() == begin);
  REQUIRE(world.drawn(*at.chain, 6));
  Frontier next = at;
  next.tokens = {5};
  next.epoch = {1, 2};
  next.chain = std::make_shared<Chain>(1);
  next.chain->begin(3, 4, 4);
  lent->inbox->post(Frontiers{{next}});
  CHECK(world.drawn(*next.chain, 4));
  world.simulation.kill(world.draft);
  world.simulation.run();
  Frontier last = next;
  last.epoch = {1, 3};
  last.chain = std::make_shared<Chain>(1);
  last.chain->begin(3, 4, 4);
  lent->inbox->post(Frontiers{{last}});
  world.simulation.run();
  CHECK(last.chain->drawn() == 3); // lost, as a hint may be
}

// ---- forks ----

namespace {

/// Everything that a fork of `chain` at `position` with `token` should have drawn: the greedy
/// continuation of (prefix, token).
Tokens continuation(const DraftWorld& world, Tokens context, const Chain& fork) {
  Tokens expected;
  for (int position = fork.start(); position < fork.drawn(); ++position) {
    expected.push_back(world.likeliest(context));
    context.push_back(expected.back());
  }
  return expected;
}

Tokens drawn_tokens(const Chain& chain) {
  Tokens tokens;
  for (int position = chain.start(); position < chain.drawn(); ++position)
    tokens.push_back(chain.token(position));
  return tokens;
}

} // namespace

TEST_CASE("behind its window the draft writes windows for the likeliest rejections") {
  DraftWorld world;
  const Tokens prompt{1, 2, 3, 4, 5}; // not at a page's end, so that pages are copied
  Frontier at = world.frontier(1, prompt, {1, 1}, 2, 3);
  at.forking = {6, 3, {}};
  const std::size_t before = world.pool->ledger().free;
  world.simulation.tell(world.draft, Frontiers{{at}});
  world.simulation.run();
  CHECK(at.chain->drawn() == 10);
  int forks = 0;
  for (int position = 5; position <= 7; ++position)
    for (TokenId token = 0; token < vocabulary; ++token) {
      const ChainRef fork = at.chain->fork(position, token);
      if (!fork)
        continue;
      ++forks;
      CHECK(token != at.chain->token(position));
      CHECK(at.chain->guesses(position).rank(token) >= 0);
      CHECK(fork->start() == position + 1);
      CHECK(fork->drawn() == position + 4);
      Tokens context = prompt;
      for (int p = 5; p < position; ++p)
        context.push_back(at.chain->token(p));
      context.push_back(token);
      CHECK(drawn_tokens(*fork) == continuation(world, context, *fork));
    }
  CHECK(forks == 3 * (vocabulary - 2)); // with time, all others that are possible
  CHECK(before > world.pool->ledger().free);
  Frontier next = at; // the verdict: what forks held comes back
  next.epoch = {1, 2};
  next.tokens = {6};
  next.forking = {};
  next.chain = std::make_shared<Chain>(1);
  next.chain->begin(6, 6, 6);
  at.chain->close();
  world.simulation.tell(world.draft, Frontiers{{next}});
  world.simulation.run();
  CHECK(world.pool->ledger().free == before);
}

TEST_CASE("likelier outcomes are drafted first, as many in a pass as there are rows") {
  DraftWorld world;
  Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 2, 0);
  at.forking = {2, 4, {}};
  world.simulation.tell(world.draft, Frontiers{{at}});
  REQUIRE(world.drawn(*at.chain, 5));
  const auto begin = world.simulation.now();
  const auto fork = [&](int position, int rank) {
    return at.chain->fork(position, at.chain->guesses(position).tokens[std::size_t(rank)]);
  };
  REQUIRE(world.simulation.run_until([&] { return fork(3, 0) && fork(3, 0)->drawn() == 5; }));
  CHECK(world.simulation.now() - begin == 10ms);
  REQUIRE(fork(4, 0)); // accepted once, then rejected: the second likeliest outcome
  CHECK(fork(4, 0)->drawn() == 6);
  CHECK(fork(3, 1) == nullptr);
}

TEST_CASE("where the draft was less sure of its token a fork is worth more") {
  // Two drafted tokens, at 3 and 4; which of them has the first fork?
  const auto begin = [](DraftWorld& world, TokenId token, const sampling::Odds& odds) {
    Frontier at = world.frontier(1, {1, 2, token}, {1, 1}, 2, 0);
    at.forking = {1, 4, odds};
    world.simulation.tell(world.draft, Frontiers{{at}});
    REQUIRE(world.drawn(*at.chain, 5));
    return at.chain;
  };
  sampling::Odds odds;
  odds.by_margin.fill(0.99);
  int compared = 0;
  for (TokenId token = 0; token < vocabulary; ++token) {
    DraftWorld world;
    const ChainRef plain = begin(world, token, odds);
    const std::size_t classes[] = {sampling::margin_class(plain->guesses(3).margin),
                                   sampling::margin_class(plain->guesses(4).margin)};
    if (classes[0] == classes[1])
      continue;
    for (const int unsure : {3, 4}) {
      sampling::Odds learned = odds;
      learned.by_margin[classes[unsure - 3]] = 0.1;
      DraftWorld again;
      const ChainRef chain = begin(again, token, learned);
      const auto forked = [&](int position) {
        return chain->fork(position, chain->guesses(position).tokens[0]) != nullptr;
      };
      REQUIRE(again.simulation.run_until([&] { return forked(3) || forked(4); }));
      CHECK(forked(unsure));
      ++compared;
    }
  }
  CHECK(compared > 0);
}

TEST_CASE(
    "a fork that came true goes on as the sequence's chain, fed to the sequence's own pages") {
  DraftWorld world;
  Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 2, 0);
  at.forking = {4, 2, {}};
  world.simulation.tell(world.draft, Frontiers{{at}});
  world.simulation.run();
  const TokenId guess = at.chain->guesses(4).tokens[0];
  const ChainRef fork = at.chain->fork(4, guess);
  REQUIRE(fork);
  REQUIRE(fork->drawn() == 7);
  Frontier next = at; // one accepted, then the guess
  next.epoch = {1, 2};
  next.tokens = {at.chain->token(3), guess};
  next.chain = fork;
  fork->extend(7, 10);
  at.chain->close();
  world.simulation.tell(world.draft, Frontiers{{next}});
  REQUIRE(world.drawn(*fork, 10));
  CHECK(drawn_tokens(*fork) == continuation(world, {1, 2, 3, at.chain->token(3), guess}, *fork));
  CHECK(world.simulation.run_until([&] { return next.residence->cached.load() == 5; }));
  world.simulation.run();
  int forks = 0; // of the fork: they begin when its own tokens are in the sequence's pages
  for (int position = 5; position <= 7; ++position)
    for (TokenId token = 0; token < vocabulary; ++token)
      if (const ChainRef second = fork->fork(position, token)) {
        ++forks;
        Tokens context{1, 2, 3, at.chain->token(3), guess};
        for (int p = 5; p < position; ++p)
          context.push_back(fork->token(p));
        context.push_back(token);
        CHECK(drawn_tokens(*second) == continuation(world, context, *second));
      }
  CHECK(forks > 0);
}

TEST_CASE("forks take only pages that nobody has, and do without where there are none") {
  DraftWorld world;
  std::vector<gpu::PageRef> taken;
  Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 2, 1);
  at.forking = {8, 4, {}};
  while (world.pool->ledger().free > 2)
    taken.push_back(world.pool->take());
  world.simulation.tell(world.draft, Frontiers{{at}});
  world.simulation.run();
  CHECK(at.chain->drawn() == 6);
  CHECK(world.pool->ledger().free == 0);
  int forks = 0;
  for (int position = 3; position <= 5; ++position)
    for (TokenId token = 0; token < vocabulary; ++token)
      forks += at.chain->fork(position, token) != nullptr;
  CHECK(forks == 1); // of two pages
}

TEST_CASE("no outcome is drafted twice, whatever order of guesses the odds have learned") {
  DraftWorld world;
  Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 2, 0);
  at.forking = {2, 3, {}};
  at.forking.odds.guess = {0.1, 0.05, 0.4, 0.2, 0.01, 0.01, 0.01, 0.01};
  world.simulation.tell(world.draft, Frontiers{{at}});
  world.simulation.run();
  for (int position = 3; position <= 4; ++position)
    for (int rank = 0; rank < at.chain->guesses(position).count; ++rank) {
      const TokenId token = at.chain->guesses(position).tokens[std::size_t(rank)];
      CHECK(at.chain->fork(position, token) != nullptr); // with time, each of them
    }
  CHECK(world.telemetry->drafted == 2 + std::uint64_t(2 * 3 * (vocabulary - 2)));
}
