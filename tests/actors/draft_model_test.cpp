// The draft actor alone.
#include "actors/draft_model.hpp"
#include "execution/draft_step.hpp"
#include "tests/actors/models_world.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::execution;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

using ModelRef = std::shared_ptr<const models::Model>;

struct DraftWorld : ModelWorld {
  /// wrap: makes the draft's model of the scripted one.
  using Wrap = std::function<ModelRef(ModelRef)>;
  explicit DraftWorld(
      const std::string& device_name = "sim:10ms", const Wrap& wrap = [](ModelRef m) { return m; })
      : ModelWorld(device_name) {
    const DraftStep::Parts drafting{wrap(model), device, pool,      ModelWorld::vocabulary,
                                    4,           15,     telemetry, 64};
    draft = simulation.spawn<DraftModel>(
        DraftModelParts{
            device,
            [drafting](std::shared_ptr<DraftQueue> board, const std::shared_ptr<gpu::Device>&) {
              return std::make_shared<DraftStep>(drafting, std::move(board));
            },
            closer, telemetry},
        device);
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
    at.residency = std::make_shared<CacheResidency>();
    at.residency->epoch = epoch;
    return at;
  }
  bool drawn(const Chain& chain, int end) {
    return simulation.run_until([&] { return chain.drawn() >= end; });
  }

  DraftActor draft;
};

} // namespace

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
    at.residency->over.store(true);
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

// ---- passes behind ----

namespace {

constexpr const char* queueing = "sim:10ms+queue";

/// What a draft writes after {1, 2, 3}, eight tokens, as `spec` wants them drawn.
struct DraftedAlone {
  Tokens tokens;
  base::Duration took{};
  std::uint64_t passes_behind = 0;
};
DraftedAlone draft_on(const std::string& device, const SequenceSpecRef& spec) {
  DraftWorld world(device);
  Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 4, 4);
  at.spec = spec;
  const auto begin = world.simulation.now();
  world.simulation.tell(world.draft, Frontiers{{at}});
  REQUIRE(world.drawn(*at.chain, 11));
  DraftedAlone drafted{{}, world.simulation.now() - begin, world.telemetry->passes_behind};
  for (int position = 3; position < 11; ++position)
    drafted.tokens.push_back(at.chain->token(position));
  world.simulation.run();
  CHECK(at.chain->drawn() == 11);
  CHECK(at.residency->cached == 3);
  return drafted;
}

} // namespace

TEST_CASE("passes behind others draw the tokens of passes that waited") {
  for (int kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    auto spec = std::make_shared<SequenceSpec>(*DraftWorld::greedy(1, 3));
    if (kind > 0) {
      spec->warping.temperature = 1;
      spec->noise = {77, 0};
    }
    if (kind == 2) { // looks back at tokens that nobody knows yet
      spec->warping.frequency_penalty = 1.5f;
      spec->warping.repetition_penalty = 1.4f;
    }
    const DraftedAlone behind = draft_on(queueing, spec);
    const DraftedAlone waited = draft_on("sim:10ms", spec);
    CHECK(behind.tokens == waited.tokens);
    CHECK(behind.took == waited.took);
    CHECK(behind.passes_behind == 7);
    CHECK(waited.passes_behind == 0);
  }
}

TEST_CASE("a verdict takes effect one pass later at most where passes stand behind") {
  DraftWorld world(queueing);
  const Frontier first = world.frontier(1, {1, 2, 3}, {1, 1}, 12, 0);
  world.simulation.tell(world.draft, Frontiers{{first}});
  REQUIRE(world.drawn(*first.chain, 5));
  CHECK(first.chain->bound() == 7); // one at work, one behind
  Frontier second = first;
  second.tokens = {first.chain->token(3), 6};
  second.epoch = {1, 2};
  second.chain = std::make_shared<Chain>(1);
  second.chain->begin(5, 7, 7);
  const auto verdict = world.simulation.now();
  first.chain->close();
  world.simulation.tell(world.draft, Frontiers{{second}});
  REQUIRE(world.drawn(*second.chain, 7));
  CHECK(world.simulation.now() - verdict <= 40ms);
  world.simulation.run();
  CHECK(first.chain->drawn() == 7);
  CHECK(first.chain->bound() == 7);
  CHECK(second.chain->token(5) == world.likeliest({1, 2, 3, first.chain->token(3), 6}));
  CHECK(second.chain->token(6) ==
        world.likeliest({first.chain->token(3), 6, second.chain->token(5)}));
}

namespace {

/// Another model whose n-th pass (from 0) gives no distribution.
class Failing final : public models::Model {
public:
  Failing(ModelRef model, int pass) : model_(std::move(model)), pass_(pass) {}
  const ModelInfo& info() const override { return model_->info(); }
  int vocabulary() const override { return model_->vocabulary(); }
  gpu::KvShape kv_shape(int tokens) const override { return model_->kv_shape(tokens); }
  gpu::Device& device() const override { return model_->device(); }
  Result<std::unique_ptr<models::Workspace>> make_workspace(int rows, int logits) const override {
    return model_->make_workspace(rows, logits);
  }
  void plan(std::span<const models::SequenceRows> batch, const gpu::KvPool& rows,
            models::Workspace& workspace) const override {
    model_->plan(batch, rows, workspace);
  }
  void forward(gpu::Operations& operations, models::Workspace& workspace) const override {
    model_->forward(operations, workspace);
    if (passes_++ == pass_)
      workspace.logits().data[0] = std::numeric_limits<float>::quiet_NaN();
  }

private:
  ModelRef model_;
  int pass_;
  mutable int passes_ = 0;
};

} // namespace

TEST_CASE("nothing is put behind a token that could not be drawn") {
  for (const char* device : {"sim:10ms", queueing}) {
    CAPTURE(device);
    DraftWorld world(device,
                     [](ModelRef model) { return std::make_shared<Failing>(std::move(model), 2); });
    const Frontier at = world.frontier(1, {1, 2, 3}, {1, 1}, 6, 0);
    world.simulation.tell(world.draft, Frontiers{{at}});
    world.simulation.run();
    CHECK(at.chain->drawn() == 5);
    CHECK(at.chain->bound() == 5);
    CHECK(at.chain->settled(9));
    Frontier next = at; // all that was drawn was right
    next.tokens = {at.chain->token(3), at.chain->token(4)};
    next.epoch = {1, 2};
    next.chain = std::make_shared<Chain>(1);
    next.chain->begin(5, 8, 8);
    world.simulation.tell(world.draft, Frontiers{{next}});
    REQUIRE(world.drawn(*next.chain, 8));
    Tokens context{1, 2, 3, at.chain->token(3), at.chain->token(4)};
    for (int position = 5; position < 8; ++position) {
      CHECK(next.chain->token(position) == world.likeliest(context));
      context.push_back(next.chain->token(position));
    }
  }
}

TEST_CASE("no pass stands behind one that reads a prompt, or where another sequence waits for it") {
  DraftWorld world(queueing);
  const Tokens prompt(40, 1); // too much for a pass that somebody waits for
  Frontier reader = world.frontier(1, prompt, {1, 1}, 2, 0);
  reader.pages = world.pages(48);
  const Frontier writer = world.frontier(2, {1, 2, 3}, {1, 2}, 3, 8);
  world.simulation.tell(world.draft, Frontiers{{reader, writer}});
  REQUIRE(world.drawn(*reader.chain, 42));
  // Its window first; a token of the lookahead beside the other's prompt, and beside each of its
  // tokens.
  CHECK(writer.chain->drawn() <= 3 + 3 + 3);
  world.simulation.run();
  CHECK(writer.chain->drawn() == 14);
  Tokens context = prompt;
  for (int position = 40; position < 42; ++position) {
    CHECK(reader.chain->token(position) == world.likeliest(context));
    context.push_back(reader.chain->token(position));
  }
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
    for (TokenId token = 0; token < ModelWorld::vocabulary; ++token) {
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
  CHECK(forks == 3 * (ModelWorld::vocabulary - 2)); // with time, all others that are possible
  CHECK(base::seconds(at.chain->busy()) ==          // the chain's, or its forks'
        doctest::Approx(base::seconds(world.telemetry->overlap.sums().draft)));
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
  for (TokenId token = 0; token < ModelWorld::vocabulary; ++token) {
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
  CHECK(world.simulation.run_until([&] { return next.residency->cached.load() == 5; }));
  world.simulation.run();
  int forks = 0; // of the fork: they begin when its own tokens are in the sequence's pages
  for (int position = 5; position <= 7; ++position)
    for (TokenId token = 0; token < ModelWorld::vocabulary; ++token)
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
    for (TokenId token = 0; token < ModelWorld::vocabulary; ++token)
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
  CHECK(world.telemetry->drafted == 2 + std::uint64_t(2 * 3 * (ModelWorld::vocabulary - 2)));
}
