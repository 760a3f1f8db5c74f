// Promises 1 and 2 again, on real threads and real kernels: the demo pair on this machine's cores.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <doctest/doctest.h>

#include <array>
#include <thread>

using namespace paceline;
using namespace paceline::testing;

namespace {

/// Source texts of different length; half are greedy, half sampled.
std::vector<Request> live_requests() {
  std::vector<Request> all;
  for (const char* prompt :
       {"def", "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(",
        "import os\nimport sys\n\ndef main():\n",
        "def mean(values):\n    \"\"\"Return the arithmetic mean.\"\"\"\n    total = 0\n    "
        "for "}) {
    const bool greedy = all.size() % 2 == 0;
    all.push_back(repeatable(prompt, 24,
                             greedy ? std::nullopt : std::optional<std::uint64_t>(5 + all.size())));
  }
  return all;
}

} // namespace

TEST_CASE("on real threads: the same tokens in every mode, window, batch, chunk, page and team") {
  constexpr std::array modes{SpeculationMode::sync, SpeculationMode::overlap,
                             SpeculationMode::automatic};
  constexpr std::array chunks{512, 7, 1, 33};
  constexpr std::array pages{16, 2, 64};

  EngineOptions plain;
  plain.speculation = SpeculationMode::off;
  plain.threads = 1;
  std::vector<std::vector<TokenId>> expected;
  {
    Engine engine = open_engine(plain);
    for (const Request& request : live_requests())
      expected.push_back(ask(engine, request).tokens);
  }
  std::uint64_t accepted = 0;
  for (int window = 1; window <= 8; ++window) {
    const auto turn = std::size_t(window);
    EngineOptions options;
    options.speculation = modes[turn % modes.size()];
    options.window = window;
    options.threads = 1 + window % 3; // more threads than cores, too
    options.prefill_chunk = chunks[turn % chunks.size()];
    options.page_tokens = pages[turn / 2 % pages.size()];
    options.max_num_seqs = 1 + window % 4;
    CAPTURE(window);
    Engine engine = open_engine(options);
    const std::vector<Answer> answers = ask_all(engine, live_requests());
    CHECK(tokens_of(answers) == expected);
    for (const Answer& answer : answers)
      accepted += answer.end().speculation.accepted;
  }
  CHECK(accepted > 100); // speculation was at work
}

TEST_CASE("on real threads: an engine that has nothing to do soon says that no page is held") {
  EngineOptions options;
  options.threads = 1;
  options.speculation = SpeculationMode::overlap;
  Engine engine = open_engine(options);
  for (int round = 0; round < 20; ++round) {
    Request request = live_requests()[1];
    request.max_tokens = 500;
    Stream stream = submit(engine, request);
    while (auto event = stream.next())
      stream.cancel();
    // Steps in flight may still hold some; what they give back shows without another message.
    while (engine.metrics().kv_pages_quarantined + engine.metrics().kv_pages_used > 0)
      std::this_thread::yield();
  }
}
