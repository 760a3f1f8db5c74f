#include "speculation/chain.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <sched.h>
#include <set>
#include <thread>
#include <vector>

using namespace paceline;
using namespace paceline::speculation;
using namespace std::chrono_literals;

namespace {

constexpr int ring = speculation::limits::chain_positions;

std::shared_ptr<Chain> chain_from(int start, int limit) {
  auto chain = std::make_shared<Chain>(7);
  chain->begin(start, limit, limit);
  return chain;
}

/// Any token that only this position has.
TokenId token_at(int position) {
  return 1000 + position;
}

void draw(Chain& chain, int position) {
  chain.bind(position + 1);
  chain.put(position, token_at(position), nullptr);
}

/// Draws all that the chain wants; how many.
int draw_all(Chain& chain) {
  int count = 0;
  for (int position = chain.next(); position >= 0; position = chain.next(), ++count)
    draw(chain, position);
  return count;
}

/// Keeps this thread on the n-th core the process may use (if there are so many): two threads that
/// take turns on one core hardly ever meet.
void stay_on_core(int n) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || n-- > 0)
      continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

struct Opened {
  std::shared_ptr<Gate> gate(int arrivals = 1) {
    return std::make_shared<Gate>(arrivals, [this] { ++count; });
  }
  std::atomic<int> count{0};
};

} // namespace

TEST_CASE("a chain is drawn from its start to its limit") {
  const auto chain = chain_from(10, 13);
  CHECK(chain->sequence() == 7);
  CHECK(chain->start() == 10);
  CHECK(chain->bound() == 10);
  CHECK(chain->drawn() == 10);
  CHECK(chain->next() == 10);
  CHECK(draw_all(*chain) == 3);
  CHECK(chain->next() == -1);
  CHECK(chain->drawn() == 13);
  for (int position = 10; position < 13; ++position)
    CHECK(chain->token(position) == token_at(position));
}

TEST_CASE("a chain whose limit is its start draws nothing") {
  const auto chain = chain_from(10, 10);
  CHECK(chain->next() == -1);
  CHECK(chain->settled(10));
}

TEST_CASE("a position is bound before it is drawn") {
  const auto chain = chain_from(0, 8);
  chain->bind(1);
  CHECK(chain->bound() == 1);
  CHECK(chain->drawn() == 0);
  CHECK_FALSE(chain->settled(1));
  chain->put(0, 5, nullptr);
  CHECK(chain->drawn() == 1);
  CHECK(chain->settled(1));
  CHECK_FALSE(chain->settled(2));
}

TEST_CASE("several positions can be bound at once") {
  const auto chain = chain_from(4, 8);
  chain->bind(7);
  CHECK(chain->bound() == 7);
  CHECK(chain->next() == 4);
  chain->put(4, 1, nullptr);
  chain->put(5, 2, nullptr);
  CHECK(chain->bound() == 7);
  CHECK(chain->next() == 6);
  CHECK_FALSE(chain->settled(7));
  chain->put(6, 3, nullptr);
  CHECK(chain->settled(7));
}

TEST_CASE("the end of a chain settles what was bound and will never be drawn") {
  const auto chain = chain_from(4, 20);
  draw(*chain, 4);
  chain->bind(8);
  chain->end_at(5);
  CHECK(chain->bound() == 5);
  CHECK(chain->drawn() == 5);
  CHECK(chain->settled(8));
  CHECK(chain->settled(20));
  CHECK(chain->next() == -1);
  chain->extend(30, 30);
  CHECK(chain->next() == -1);
}

TEST_CASE("a chain that will end further on goes on until there") {
  const auto chain = chain_from(4, 20);
  chain->end_at(6);
  CHECK(chain->bound() == 4);
  CHECK_FALSE(chain->settled(5));
  CHECK(draw_all(*chain) == 2);
  CHECK(chain->settled(20));
}

TEST_CASE("a closed chain wants no token, and its tokens stay readable") {
  const auto chain = chain_from(0, 8);
  draw(*chain, 0);
  CHECK_FALSE(chain->closed());
  chain->close();
  CHECK(chain->closed());
  CHECK(chain->next() == -1);
  CHECK(chain->token(0) == token_at(0));
  CHECK_FALSE(chain->settled(2)); // nobody waits for what he closed
}

TEST_CASE("after a hit a chain goes on, and its ring is used again") {
  const auto chain = chain_from(3, 3 + ring);
  CHECK(draw_all(*chain) == ring);
  for (int step = 1; step <= 3 * ring; ++step) {
    chain->extend(3 + ring, 3 + ring + step);
    CHECK(draw_all(*chain) == 1);
    const int end = chain->drawn();
    CHECK(end == 3 + ring + step);
    CHECK(chain->token(end - ring) == token_at(end - ring));
    CHECK(chain->token(end - 1) == token_at(end - 1));
  }
  CHECK(chain->window_end() == 3 + ring);
  CHECK(chain->limit() == 3 + 4 * ring);
}

TEST_CASE("a q row is kept as long as its position is remembered") {
  const auto chain = chain_from(0, 2 * ring);
  const QRow row(new float[2]{0.25f, 0.75f}, std::default_delete<float[]>());
  chain->bind(1);
  chain->put(0, 1, row);
  CHECK(chain->q(0) == row.get());
  for (int position = 1; position < ring; ++position)
    draw(*chain, position);
  CHECK(row.use_count() == 2);
  draw(*chain, ring);
  CHECK(row.use_count() == 1);
  CHECK(chain->q(ring) == nullptr);
}

TEST_CASE("lane time adds up, and what passes take now stands beside it") {
  const auto chain = chain_from(0, 2);
  chain->spent(3ns, {5ns, 0ns});
  chain->spent(4ns, {6ns, 9ns});
  CHECK(chain->busy() == 7ns);
  CHECK(chain->pace().step == 6ns);
  CHECK(chain->pace().fork_step == 9ns);
}

TEST_CASE("who asks for what is there already is told at once") {
  Opened opened;
  const auto chain = chain_from(0, 2);
  chain->notify_at(0, opened.gate());
  CHECK(opened.count == 1);
  draw_all(*chain);
  chain->notify_at(2, opened.gate());
  CHECK(opened.count == 2);
}

TEST_CASE("who asks for more is told once, when the last position is drawn") {
  Opened opened;
  const auto chain = chain_from(0, 4);
  chain->notify_at(3, opened.gate());
  draw(*chain, 0);
  draw(*chain, 1);
  chain->bind(3);
  CHECK(opened.count == 0);
  chain->put(2, 1, nullptr);
  CHECK(opened.count == 1);
  draw(*chain, 3);
  CHECK(opened.count == 1);
}

TEST_CASE("who waits for a chain that ends is told") {
  Opened opened;
  const auto chain = chain_from(0, 4);
  chain->notify_at(3, opened.gate());
  draw(*chain, 0);
  chain->end_at(1);
  CHECK(opened.count == 1);
  chain->end_at(1);
  CHECK(opened.count == 1);
  chain->notify_at(3, opened.gate());
  CHECK(opened.count == 2);
}

TEST_CASE("a later wish replaces an earlier one") {
  Opened earlier, later;
  const auto chain = chain_from(0, 4);
  chain->notify_at(1, earlier.gate());
  chain->notify_at(2, later.gate());
  draw_all(*chain);
  CHECK(earlier.count == 0);
  CHECK(later.count == 1);
}

TEST_CASE("one gate waits for several chains") {
  Opened opened;
  const auto gate = opened.gate(3);
  const auto early = chain_from(0, 1), late = chain_from(5, 7), ended = chain_from(9, 10);
  draw_all(*early);
  early->notify_at(1, gate);
  late->notify_at(7, gate);
  ended->notify_at(10, gate);
  ended->end_at(9);
  CHECK(opened.count == 0);
  draw_all(*late);
  CHECK(opened.count == 1);
}

TEST_CASE("a wish is told once, even where a chain ends twice") {
  Opened opened;
  const auto gate = opened.gate(2);
  const auto ended = chain_from(0, 4), other = chain_from(0, 4);
  ended->notify_at(3, gate);
  other->notify_at(3, gate);
  ended->end_at(0);
  ended->end_at(0);
  CHECK(opened.count == 0);
  draw_all(*other);
  CHECK(opened.count == 1);
}

// The draft is let go for one token while the asker wants to be told of it: later when the draft
// was still at it last time, else sooner, so that the two keep meeting in the middle. When both
// have returned, a gate that is still shut has been missed.
TEST_CASE("no wake-up is lost and none comes twice, however the two threads meet") {
  constexpr int rounds = 20'000;
  constexpr int patience = 2'000; // looks before the thread offers its core
  const auto chain = chain_from(0, 0);
  std::atomic<int> returned{0};
  std::thread draft([&] {
    stay_on_core(0);
    for (int idle = 1; !chain->closed(); ++idle) {
      returned += draw_all(*chain);
      if (idle % patience == 0)
        std::this_thread::yield();
    }
  });
  Opened opened;
  int missed = 0;
  std::thread asker([&] {
    stay_on_core(1);
    for (int round = 0, delay = 0; round < rounds; ++round) {
      chain->extend(round + 1, round + 1);
      for (int i = 0; i < delay; ++i)
        (void)chain->closed();
      const bool early = chain->drawn() <= round;
      chain->notify_at(round + 1, opened.gate());
      delay = std::clamp(delay + (early ? 5 : -5), 0, 5'000);
      for (int idle = 1; returned <= round; ++idle)
        if (idle % patience == 0)
          std::this_thread::yield();
      missed += opened.count + missed <= round;
    }
    chain->close();
  });
  asker.join();
  draft.join();
  CHECK(missed == 0);
  CHECK(opened.count == rounds);
}

TEST_CASE("a reader that follows sees every token whole, round and round the ring") {
  constexpr int end = 50 * ring;
  const auto chain = chain_from(0, ring / 2);
  std::thread draft([&] {
    while (chain->drawn() < end) {
      const int position = chain->next();
      if (position < 0) {
        std::this_thread::yield();
        continue;
      }
      const QRow row(new float[1]{float(position)}, std::default_delete<float[]>());
      chain->bind(position + 1);
      chain->put(position, token_at(position), row);
    }
  });
  int wrong = 0;
  for (int position = 0; position < end; ++position) {
    while (!chain->settled(position + 1))
      std::this_thread::yield();
    wrong += chain->bound() <= position;
    wrong += chain->token(position) != token_at(position);
    wrong += *chain->q(position) != float(position);
    chain->extend(position, std::min(end, position + ring / 2));
  }
  draft.join();
  CHECK(wrong == 0);
}

TEST_CASE("a fork is found by the outcome that it was drafted for, and by no other") {
  const auto chain = chain_from(10, 13);
  const auto fork = chain_from(12, 15);
  chain->add_fork(11, 5, fork);
  CHECK(chain->fork(11, 5) == fork);
  CHECK(chain->fork(11, 6) == nullptr);
  CHECK(chain->fork(12, 5) == nullptr);
}

TEST_CASE("forks that did not come true are closed, and their tokens counted") {
  const auto chain = chain_from(10, 13);
  const auto kept = chain_from(11, 13);
  const auto other = chain_from(12, 15);
  const auto later = chain_from(14, 16);
  CHECK(draw_all(*kept) == 2);
  CHECK(draw_all(*other) == 3);
  chain->add_fork(10, 5, kept);
  chain->add_fork(11, 5, other);
  chain->add_fork(13, 5, later);
  CHECK(chain->drop_forks(13, kept.get()) == 3);
  CHECK_FALSE(kept->closed());
  CHECK(other->closed());
  CHECK_FALSE(later->closed()); // of an outcome that is yet to be decided
  CHECK(chain->fork(11, 5) == nullptr);
  CHECK(chain->fork(13, 5) == later);
}

TEST_CASE("no two chains of a sequence share the noise of their draws") {
  std::set<std::uint32_t> attempts;
  for (const int frontier : {3, 4, 5}) {
    attempts.insert(chain_from(frontier, frontier + 4)->attempt());
    for (int fork = 1; fork <= 8; ++fork) {
      Chain chain(7);
      chain.begin_fork(6, 9, frontier, fork); // all where the others may be, too
      attempts.insert(chain.attempt());
    }
  }
  CHECK(attempts.size() == 3 * 9);
}

TEST_CASE("whoever wants to know of forks is told when those of a pass are there") {
  const auto chain = chain_from(10, 20);
  int told = 0;
  std::size_t seen = 0;
  chain->on_forks([&] {
    ++told;
    seen = chain->forks().size();
  });
  chain->add_fork(11, 5, chain_from(12, 15));
  chain->add_fork(11, 6, chain_from(12, 15));
  CHECK(told == 0);
  chain->tell_forks();
  CHECK(told == 1);
  CHECK(seen == 2);
}

TEST_CASE("a token that cost nothing makes room for another one") {
  const auto chain = std::make_shared<Chain>(7);
  chain->begin(10, 12, 15);
  chain->lengthen();
  CHECK(chain->window_end() == 13);
  CHECK(chain->limit() == 16);
  chain->bind(11);
  chain->put(10, token_at(10), nullptr, {}, Writer::form);
  CHECK(chain->writer(10) == Writer::form);
  CHECK(draw_all(*chain) == 5);
  CHECK(chain->writer(11) == Writer::drafter);
  chain->extend(14, 17); // a verdict plans anew
  CHECK(chain->window_end() == 14);
}
