// ./dev soak nodes: sixteen engines with a node each on loopback, a steady load, and a node killed
// every second: nothing may be lost, and memory may not grow.
//
//   soak_nodes PROGRAM [MINUTES [REQUESTS_PER_SECOND [NODES]]]
#include "tests/network/nodes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>

using namespace paceline;
using namespace paceline::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::duration;

namespace {

/// Requests of one engine that may be under way at a time.
constexpr int at_a_time = 4;

constexpr const char* target = "scripted:vocabulary=64,seed=7,peaked=1";
constexpr const char* draft = "scripted:vocabulary=64,seed=7,peaked=1,acceptance=0.8";

std::vector<Request> requests() {
  std::vector<Request> all;
  for (int i = 0; i < 32; ++i) {
    Request request;
    request.prompt_tokens = {1 + i % 8, 2 + i % 16, 3, i};
    request.max_tokens = 16;
    request.ignore_eos = true;
    request.verify = VerifyRule::coupled;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = std::uint64_t(i + 1);
    all.push_back(request);
  }
  return all;
}

EngineOptions options_for(int port) {
  EngineOptions options;
  options.target = target;
  options.drafters = {draft};
  options.threads = 1;
  options.max_model_len = 64;
  options.kv_memory_bytes = 1 << 20;
  options.faults.restart_pause_max = std::chrono::milliseconds(100);
  options.faults.restarts_forgotten = std::chrono::milliseconds(1);
  options.window = 3;
  options.speculation = port > 0 ? SpeculationMode::overlap : SpeculationMode::off;
  if (port > 0)
    options.draft_devices = {"node://127.0.0.1:" + std::to_string(port)};
  return options;
}

/// Processor time so far. Of nodes, those that were killed.
double seconds_used(int whose) {
  rusage usage{};
  ::getrusage(whose, &usage);
  const auto seconds = [](const timeval& time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Seat {
  std::optional<NodeProcess> node;
  int port = 0;
  std::optional<Engine> engine;
};

class Soak {
public:
  Soak(std::string program, double seconds, double rate, int nodes)
      : program_(std::move(program)), seconds_(seconds), rate_(rate), seats_(std::size_t(nodes)),
        requests_(requests()) {
    Engine plain = open_or_throw(options_for(0));
    for (const Request& request : requests_) {
      Stream stream = submit_or_throw(plain, request);
      expected_.push_back(read_outcome(stream).tokens);
    }
    for (Seat& seat : seats_) {
      start(seat);
      seat.engine.emplace(open_or_throw(options_for(seat.port)));
    }
  }

  int run() {
    began_ = Clock::now();
    std::vector<std::thread> loads;
    for (std::size_t i = 0; i < at_a_time * seats_.size(); ++i)
      loads.emplace_back([this, i] { load(i); });
    std::size_t early = 0, late = 0;
    std::mt19937 random(1);
    for (int second = 1; elapsed() < seconds_; ++second) {
      std::this_thread::sleep_until(began_ + std::chrono::seconds(second));
      start(seats_[random() % seats_.size()]);
      ++kills_;
      (elapsed() < seconds_ / 5 ? early : late) = resident_bytes();
      if (second % 15 == 0)
        std::printf("%4d s: %d requests, %.1f MB\n", second, ended_.load(), resident_bytes() / 1e6),
            std::fflush(stdout);
    }
    for (std::thread& each : loads)
      each.join();
    return report(early, late);
  }

private:
  double elapsed() const { return duration<double>(Clock::now() - began_).count(); }

  /// Kills what is there.
  void start(Seat& seat) {
    if (seat.node)
      seat.node->send(SIGKILL);
    seat.node.reset();
    seat.node.emplace(std::vector{program_}, "127.0.0.1:" + std::to_string(seat.port),
                      std::vector<std::string>{"-m", draft, "--kv-memory", "1M"});
    seat.port = seat.node->port();
  }

  /// Its share of the requests, one after the other, as soon as they are due.
  void load(std::size_t loader) {
    const std::size_t seat = loader % seats_.size();
    const double pause = double(at_a_time * seats_.size()) / rate_;
    double due = double(loader) / rate_;
    for (std::size_t i = loader; due < seconds_ && elapsed() < seconds_; ++i, due += pause) {
      std::this_thread::sleep_until(
          began_ + std::chrono::duration_cast<Clock::duration>(duration<double>(due)));
      const std::size_t which = i % requests_.size();
      auto stream = seats_[seat].engine->submit(requests_[which]);
      if (!stream) {
        ++lost_;
        continue;
      }
      const Outcome got = read_outcome(*stream);
      lost_ += !got.error.empty();
      different_ += got.tokens != expected_[which];
      accepted_ += got.accepted;
      ++ended_;
      const std::lock_guard lock(mutex_);
      times_.push_back(elapsed() - due);
    }
  }

  int report(std::size_t early, std::size_t late) {
    std::sort(times_.begin(), times_.end());
    const auto share = [&](double of) {
      return times_.empty() ? 0 : 1e3 * times_[std::size_t(of * double(times_.size() - 1))];
    };
    const bool grown = late > early + early / 10 + (16u << 20);
    const bool bad = grown || lost_ + different_ > 0 || accepted_ == 0;
    std::printf(
        "%zu nodes, %.0f s, %d kills: %d requests (%.0f a second of %.0f asked), %d lost, %d "
        "different, %.1f tokens accepted each; %.0f ms (median), %.0f ms (99 %%); memory "
        "%.1f MB after a fifth, %.1f MB at the end; processor time of the engines %.0f s, of nodes "
        "that were killed %.0f s: %s\n",
        seats_.size(), elapsed(), kills_, ended_.load(), ended_ / elapsed(), rate_, lost_.load(),
        different_.load(), double(accepted_) / std::max(ended_.load(), 1), share(0.5), share(0.99),
        double(early) / 1e6, double(late) / 1e6, seconds_used(RUSAGE_SELF),
        seconds_used(RUSAGE_CHILDREN), bad ? "FAILED" : "nothing lost, nothing grown");
    return bad;
  }

  std::string program_;
  double seconds_;
  double rate_;
  std::vector<Seat> seats_;
  std::vector<Request> requests_;
  std::vector<std::vector<TokenId>> expected_;
  Clock::time_point began_;
  int kills_ = 0;
  std::atomic<int> ended_{0}, lost_{0}, different_{0};
  std::atomic<std::uint64_t> accepted_{0};
  std::mutex mutex_;
  std::vector<double> times_; ///< From when it was due until its end, in seconds.
};

} // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, double otherwise) {
    return i < argc ? std::strtod(argv[i], nullptr) : otherwise;
  };
  if (argc < 2 || number(2, 5) <= 0 || number(3, 200) <= 0 || number(4, 16) < 1)
    return std::fputs("usage: soak_nodes PROGRAM [MINUTES [REQUESTS_PER_SECOND [NODES]]]\n",
                      stderr),
           2;
  try {
    return Soak(argv[1], 60 * number(2, 5), number(3, 200), int(number(4, 16))).run();
  } catch (const std::exception& wrong) {
    std::printf("FAILED: %s\n", wrong.what());
    return 1;
  }
}
