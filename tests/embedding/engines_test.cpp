// Engines as guests: several in one process, and closed while others submit.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions small(const std::string& target) {
  EngineOptions options;
  options.target = target;
  options.drafters.clear();
  options.devices = {"sim:1us"};
  options.kv_memory_bytes = std::size_t(1) << 20;
  return options;
}

} // namespace

TEST_CASE("several engines live in one process, each with its own models, and go in any order") {
  const ScriptedPair first{.seed = 7};
  const ScriptedPair second{.seed = 8};
  auto a = std::make_unique<Engine>(open_engine(small(first.target())));
  auto b = std::make_unique<Engine>(open_engine(small(second.target())));
  auto c = std::make_unique<Engine>(open_engine(small(first.target())));
  const auto of_a = ask(*a, of_tokens(40)).tokens;
  CHECK(ask(*b, of_tokens(40)).tokens != of_a);
  a.reset();
  CHECK(ask(*c, of_tokens(40)).tokens == of_a);
  CHECK(ask(*b, of_tokens(40)).tokens.size() == 40);
}

TEST_CASE("an engine may be opened, used and closed by different threads") {
  std::optional<Engine> engine;
  std::thread([&] { engine.emplace(open_engine(small(ScriptedPair().target()))); }).join();
  CHECK(ask(*engine, of_tokens(5)).tokens.size() == 5);
  std::thread([&] { engine->shutdown(); }).join();
  CHECK(!engine->submit(of_tokens(5)));
}

TEST_CASE("an engine touches no signal") {
  constexpr std::array watched{SIGINT, SIGTERM, SIGPIPE, SIGSEGV, SIGABRT, SIGCHLD};
  const auto handlers = [&] {
    std::vector<void (*)(int)> all;
    for (const int signal : watched) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      all.push_back(action.sa_handler);
    }
    return all;
  };
  const auto blocked = [] {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    std::vector<int> signals;
    for (int signal = 1; signal < 32; ++signal)
      if (sigismember(&mask, signal) == 1)
        signals.push_back(signal);
    return signals;
  };
  const auto handlers_before = handlers();
  const auto blocked_before = blocked();
  const Engine engine = open_engine(small(ScriptedPair().target()));
  CHECK((handlers() == handlers_before));
  CHECK(blocked() == blocked_before);
}

TEST_CASE("a shutdown while threads submit ends every request, and refuses the rest") {
  Engine engine = open_engine(small(ScriptedPair().target()));
  std::vector<std::thread> clients;
  std::atomic<int> answered{0};
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      for (;;) {
        auto stream = engine.submit(of_tokens(5));
        if (!stream)
          return; // refused: the engine is going
        int ends = 0;
        while (auto event = stream->next())
          ends += std::holds_alternative<Finished>(*event);
        CHECK(ends == 1);
        ++answered;
      }
    });
  while (answered < 8)
    std::this_thread::yield();
  engine.shutdown(std::chrono::seconds(5));
  for (std::thread& client : clients)
    client.join();
  CHECK(!engine.submit(of_tokens(1)));
}
