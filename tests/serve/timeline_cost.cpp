// What a round of a model takes longer while somebody looks at the lanes (/v1/timeline).
//
//   timeline_cost [ROUNDS [MODEL DRAFT]]     in turn, so often (9); the demo pair unless told else
//
// The page's bound is for a target of 350 M parameters, on a quiet machine:
//   paceline bench --scale 350m --draft-scale 9m --keep-scaled /tmp/scaled
//   build/release/tests/serve/timeline_cost 9 /tmp/scaled/target /tmp/scaled/draft
// The reader has the same processors as the engine; a browser elsewhere would cost less.
#define DOCTEST_CONFIG_IMPLEMENT // what is shared with the tests checks by doctest's means
#include "tests/serve/live_server.hpp"
#include "tests/support/program_checks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <memory>
#include <thread>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

using Clock = std::chrono::steady_clock;

/// Reads the timeline as the page does, from when it is made until it is destroyed.
class Looker {
public:
  explicit Looker(std::uint16_t port) : client_(port) {
    client_.send("GET", "/v1/timeline");
    REQUIRE(client_.read_head().status == 200);
    REQUIRE(client_.read_event());
    thread_ = std::thread([this] {
      while (client_.read_event()) {
      }
    });
  }
  ~Looker() {
    client_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_both);
    thread_.join();
  }
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

private:
  HttpClient client_;
  std::thread thread_;
};

/// Answers once, always the same, and returns the seconds that a round took.
double seconds_a_round(Engine& engine) {
  Request request;
  request.prompt = "def fibonacci(n):";
  request.max_tokens = 128;
  request.ignore_eos = true;
  request.sampling.seed = 1;
  request.verify = VerifyRule::coupled;
  request.speculation = SpeculationMode::sync;
  request.window = 4;
  const std::uint64_t before = engine.metrics().rounds;
  const auto begin = Clock::now();
  REQUIRE(engine.complete(request));
  const std::chrono::duration<double> took = Clock::now() - begin;
  return took.count() / double(engine.metrics().rounds - before);
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[std::size_t(q * double(values.size() - 1))];
}

void measure(LiveServer& server, int rounds) {
  seconds_a_round(server.engine()); // warms up
  std::vector<double> alone;
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    double seconds[2] = {};
    for (const int way : {i % 2, 1 - i % 2}) {
      const auto looker = way == 1 ? std::make_unique<Looker>(server.port()) : nullptr;
      seconds[way] = seconds_a_round(server.engine());
    }
    alone.push_back(seconds[0]);
    ratios.push_back(seconds[1] / seconds[0]);
  }
  fmt::print(
      "a round takes {:.3f} ms, and {:.4f} times that while somebody looks (quartiles {:.4f} "
      "and {:.4f}, {} rounds)\n",
      1e3 * quantile(alone, 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25),
      quantile(ratios, 0.75), rounds);
}

} // namespace

int main(int count, char** arguments) {
  doctest::Context checks;
  end_at_failed_checks(checks);
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 9;
  if (rounds < 1 || count == 3 || count > 4) {
    fmt::print(stderr, "usage: timeline_cost [ROUNDS [MODEL DRAFT]]\n");
    return 2;
  }
  EngineOptions options = demo_pair();
  if (count == 4) {
    options.target = arguments[2];
    options.drafters = {arguments[3]};
    options.kv_memory_bytes = EngineOptions().kv_memory_bytes;
  }
  LiveServer server(options);
  measure(server, rounds);
  return EXIT_SUCCESS;
}
