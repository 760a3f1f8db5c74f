#include "scheduling/queue_order.hpp"

#include "scheduling/limits.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

/// A queue that serves one request at a time, each whole.
struct Queue {
  explicit Queue(SchedulingPolicy policy) : order(policy) {}

  void arrive(SequenceSpec spec) {
    order.arrive(sequences.add(std::make_shared<SequenceSpec>(std::move(spec))), now);
  }
  SequenceId serve() {
    Sequence* s = order.next(sequences);
    if (!s)
      return 0;
    const SequenceId id = s->spec->id;
    order.charge(*s, s->spec->prompt_tokens + s->spec->max_tokens);
    order.leave(*s);
    sequences.erase(id);
    return id;
  }
  std::vector<SequenceId> serve_all() {
    std::vector<SequenceId> served;
    while (const SequenceId id = serve())
      served.push_back(id);
    return served;
  }

  QueueOrder order;
  Sequences sequences;
  base::TimePoint now{1h};
};

SequenceSpec of(SequenceId id, std::uint64_t client, int tokens = 10) {
  SequenceSpec spec;
  spec.id = id;
  spec.client = client;
  spec.prompt_tokens = tokens;
  return spec;
}

using SequenceIds = std::vector<SequenceId>;

} // namespace

TEST_CASE("one client's requests are served as they came") {
  Queue queue(SchedulingPolicy::fcfs);
  for (const SequenceId id : {5, 3, 9, 1})
    queue.arrive(of(id, 0));
  CHECK(queue.serve_all() == SequenceIds{5, 3, 9, 1});
}

TEST_CASE("a client with many requests does not hold up one with few") {
  Queue queue(SchedulingPolicy::fcfs);
  for (SequenceId id = 1; id <= 4; ++id)
    queue.arrive(of(id, 1));
  queue.arrive(of(11, 2));
  queue.arrive(of(12, 2));
  CHECK(queue.serve_all() == SequenceIds{1, 11, 2, 12, 3, 4});
}

TEST_CASE("shares are counted in tokens") {
  Queue queue(SchedulingPolicy::fcfs);
  for (SequenceId id = 1; id <= 3; ++id)
    queue.arrive(of(id, 1, 30));
  for (SequenceId id = 11; id <= 16; ++id)
    queue.arrive(of(id, 2, 10));
  CHECK(queue.serve_all() == SequenceIds{1, 11, 12, 13, 2, 14, 15, 16, 3});
}

TEST_CASE("who comes back after a rest has saved nothing up") {
  Queue queue(SchedulingPolicy::fcfs);
  for (SequenceId id = 1; id <= 100; ++id)
    queue.arrive(of(id, 1));
  for (int i = 0; i < 90; ++i)
    queue.serve();
  for (SequenceId id = 201; id <= 210; ++id)
    queue.arrive(of(id, 2));
  int of_second = 0;
  for (int i = 0; i < 10; ++i)
    of_second += queue.serve() > 200;
  CHECK(of_second == 5);
}

TEST_CASE("between two clients with work the service differs by one request at most") {
  std::mt19937_64 random(3);
  Queue queue(SchedulingPolicy::fcfs);
  SequenceId id = 0;
  std::map<SequenceId, int> tokens;
  for (int i = 0; i < 2000; ++i) {
    tokens[++id] = 1 + int(random() % 100);
    queue.arrive(of(id, id % 2, tokens[id]));
  }
  std::int64_t lead = 0; // of the even ones
  for (int i = 0; i < 1000; ++i) {
    const SequenceId served = queue.serve();
    lead += (served % 2 == 0 ? 1 : -1) * tokens[served];
    CHECK(std::abs(lead) <= 100);
  }
}

TEST_CASE("of two clients with work the heavier is served so many times as much") {
  Queue queue(SchedulingPolicy::fcfs);
  for (SequenceId id = 1; id <= 400; ++id) {
    SequenceSpec spec = of(id, id % 2);
    spec.client_weight = id % 2 ? 3 : 1;
    queue.arrive(spec);
  }
  int of_heavier = 0;
  for (int i = 0; i < 200; ++i)
    of_heavier += queue.serve() % 2;
  CHECK(of_heavier == 150);
}

TEST_CASE("a priority is worth waiting, and nobody is overtaken for ever") {
  Queue queue(SchedulingPolicy::priority);
  SequenceSpec later = of(1, 0);
  later.priority = 2;
  queue.arrive(later);
  for (SequenceId id = 2; queue.now < base::TimePoint(1h + 40s); ++id) {
    queue.now += 1s;
    queue.arrive(of(id, 0));
    const SequenceId served = queue.serve();
    if (served == 1)
      break;
  }
  CHECK((queue.now == base::TimePoint(1h) + 2 * scheduling::limits::priority_step));
}

TEST_CASE("the earliest deadline goes first, and one without a deadline is due in a while") {
  Queue queue(SchedulingPolicy::deadline);
  queue.arrive(of(1, 0));
  SequenceSpec soon = of(2, 0);
  soon.deadline = 5s;
  queue.arrive(soon);
  soon = of(3, 0);
  soon.deadline = 2s;
  queue.arrive(soon);
  SequenceSpec late = of(4, 0);
  late.deadline = 10h;
  queue.arrive(late);
  CHECK(queue.serve_all() == SequenceIds{3, 2, 1, 4});
  queue.arrive(of(5, 0));
  queue.now += scheduling::limits::due_without_deadline;
  queue.arrive(soon);
  CHECK(queue.serve() == 5);
}

TEST_CASE("whoever has begun and lost its pages goes before those that have not") {
  Queue queue(SchedulingPolicy::fcfs);
  for (SequenceId id = 1; id <= 3; ++id)
    queue.arrive(of(id, 1));
  queue.sequences.find(3)->started = queue.now;
  CHECK(queue.serve_all() == SequenceIds{3, 1, 2});
}

TEST_CASE("sequences that have asked for no pages are not gone over, and found all the same") {
  Queue queue(SchedulingPolicy::fcfs);
  for (SequenceId id = 1; id <= 1000; ++id)
    queue.arrive(of(id, 0));
  Sequences& sequences = queue.sequences;
  sequences.leave_queue(*queue.order.next(sequences));
  CHECK(std::ranges::distance(sequences) == 1);
  CHECK(sequences.count() == 1000);
  CHECK(sequences.asked().prompt_tokens == 10'000);
  CHECK(queue.order.next(sequences)->spec->id == 1); // It waits until it has some.
  sequences.find(1)->phase = Sequence::Phase::running;
  CHECK(queue.order.next(sequences)->spec->id == 2);
  for (SequenceId id = 1; id <= 1000; ++id)
    sequences.erase(id);
  CHECK(sequences.count() == 0);
  CHECK(sequences.asked().prompt_tokens == 0);
}
