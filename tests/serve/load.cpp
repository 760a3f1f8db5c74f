// Load for a server of the demo pair, in one process with its clients.
//
//   serve_load soak SECONDS [HTTP [GRPC]] so many streams all the time: none lost, none wrong
//   serve_load overhead [ROUNDS [DEVICE]]
//                                        tokens per second over HTTP and gRPC against the
//                                        library's own, and what server and asking cost; with a
//                                        device (sim:2ms) of a scripted model at that pace
//   serve_load requests [ROUNDS]         1,000 short requests, 8 at a time, and one long stream, of
//                                        a scripted model that costs next to nothing: latency and
//                                        processor time by the library and by gRPC
#define DOCTEST_CONFIG_IMPLEMENT // what is shared with the tests checks by doctest's means
#include "paceline/client.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/program_checks.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdexcept>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <unistd.h>

using namespace paceline;
using namespace paceline::testing;
namespace asio = boost::asio;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

Request request_of(std::uint64_t seed, int tokens) {
  Request request;
  request.prompt = "def fibonacci(n):";
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.sampling.seed = seed;
  return request;
}

std::string http_of(std::uint64_t seed, int tokens) {
  const std::string body = fmt::format(R"({{"prompt": "def fibonacci(n):", "max_tokens": {}, )"
                                       R"("ignore_eos": true, "seed": {}, "stream": true}})",
                                       tokens, seed);
  return fmt::format("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                     body.size(), body);
}

/// One answer as it came, chunks and all.
struct Received {
  std::string bytes;
  double first_seconds = 0; ///< To its first event.
};

asio::awaitable<Received> ask(tcp::socket& socket, std::string request) {
  const auto begin = Clock::now();
  co_await asio::async_write(socket, asio::buffer(request), use_awaitable);
  Received received;
  std::array<char, 16384> part{};
  while (!received.bytes.ends_with("\r\n0\r\n\r\n")) {
    const std::size_t count = co_await socket.async_read_some(asio::buffer(part), use_awaitable);
    received.bytes.append(part.data(), count);
    if (received.first_seconds == 0 && received.bytes.find("data: ") != std::string::npos)
      received.first_seconds = seconds_since(begin);
  }
  co_return received;
}

std::string text_of(const std::string& bytes) {
  std::string text;
  for (auto at = bytes.find("data: {"); at != std::string::npos; at = bytes.find("data: {", at)) {
    const auto end = bytes.find("\n\n", at);
    const auto event = boost::json::parse(bytes.substr(at + 6, end - at - 6));
    text += event.at("choices").at(0).at("text").as_string();
    at = end;
  }
  return text;
}

/// An answer by gRPC.
struct Told {
  std::string text;
  double first_seconds = 0;
};

asio::awaitable<Told> ask(Client& client, Request request) {
  const auto begin = Clock::now();
  auto stream = co_await client.async_submit(std::move(request), use_awaitable);
  if (!stream)
    throw std::runtime_error(stream.error().text());
  Told told;
  while (auto event = co_await stream->async_next(use_awaitable)) {
    if (told.first_seconds == 0)
      told.first_seconds = seconds_since(begin);
    if (const auto* delta = std::get_if<Delta>(&*event))
      told.text += delta->text;
    else if (const auto* end = std::get_if<Finished>(&*event); end && end->error)
      throw std::runtime_error(end->error->text());
  }
  co_return told;
}

std::unique_ptr<Client> client_of(asio::io_context& io, const LiveServer& server) {
  ClientOptions options;
  options.port = server.grpc_port();
  return std::make_unique<Client>(io.get_executor(), options);
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t whole = 0;
  std::size_t resident = 0;
  file >> whole >> resident;
  return resident * std::size_t(sysconf(_SC_PAGESIZE));
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[std::size_t(q * double(values.size() - 1))];
}

class Soak {
public:
  Soak(LiveServer& server, double seconds) : server_(server), seconds_(seconds) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
      expected_[seed] = server.engine().complete(request_of(seed, tokens)).value().text;
  }

  int run(int http, int grpc) {
    const auto count = [this](const std::exception_ptr& failed) { lost_ += failed ? 1 : 0; };
    for (int i = 0; i < http; ++i)
      asio::co_spawn(io_, http_stream(std::uint64_t(i)), count);
    constexpr int streams_per_client = 10;
    for (int i = 0; i < grpc; ++i) {
      if (i % streams_per_client == 0)
        clients_.push_back(client_of(io_, server_));
      asio::co_spawn(io_, grpc_stream(*clients_.back(), std::uint64_t(i)), count);
    }
    io_.run();
    clients_.clear();
    server_.await_idle();
    const std::size_t after = resident_bytes();
    fmt::print(
        "streams {} + {}, answers {} + {}, lost {}, wrong {}, resident {:.1f} MB, at a third "
        "of the time {:.1f} MB\n",
        http, grpc, http_firsts_.size(), grpc_firsts_.size(), lost_, wrong_, double(after) * 1e-6,
        double(settled_) * 1e-6);
    for (const auto& [name, firsts] : {std::pair("HTTP", http_firsts_), {"gRPC", grpc_firsts_}})
      fmt::print("first token over {}: p50 {:.1f} ms, p99 {:.1f} ms\n", name,
                 1e3 * quantile(firsts, 0.5), 1e3 * quantile(firsts, 0.99));
    constexpr std::size_t slack = std::size_t(32) << 20;
    const bool flat = after < settled_ + settled_ / 10 + slack;
    const bool all = (http == 0 || !http_firsts_.empty()) && (grpc == 0 || !grpc_firsts_.empty());
    return lost_ == 0 && wrong_ == 0 && all && flat ? EXIT_SUCCESS : EXIT_FAILURE;
  }

private:
  static constexpr std::uint64_t seeds = 16;
  static constexpr int tokens = 48;

  asio::awaitable<void> http_stream(std::uint64_t index) {
    tcp::socket socket(io_);
    co_await socket.async_connect({asio::ip::address_v4::loopback(), server_.port()},
                                  use_awaitable);
    for (std::uint64_t i = index; seconds_since(begin_) < seconds_; ++i) {
      const std::uint64_t seed = 1 + i % seeds;
      const Received received = co_await ask(socket, http_of(seed, tokens));
      http_firsts_.push_back(received.first_seconds);
      check(seed, text_of(received.bytes));
    }
  }

  asio::awaitable<void> grpc_stream(Client& client, std::uint64_t index) {
    for (std::uint64_t i = index; seconds_since(begin_) < seconds_; ++i) {
      const std::uint64_t seed = 1 + i % seeds;
      const Told told = co_await ask(client, request_of(seed, tokens));
      grpc_firsts_.push_back(told.first_seconds);
      check(seed, told.text);
    }
  }

  void check(std::uint64_t seed, const std::string& text) {
    wrong_ += text != expected_[seed];
    if (settled_ == 0 && seconds_since(begin_) > seconds_ / 3)
      settled_ = resident_bytes();
  }

  LiveServer& server_;
  double seconds_;
  asio::io_context io_{1};
  Clock::time_point begin_ = Clock::now();
  std::map<std::uint64_t, std::string> expected_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<double> http_firsts_;
  std::vector<double> grpc_firsts_;
  std::size_t settled_ = 0;
  int lost_ = 0;
  int wrong_ = 0;
};

/// Tokens per second of so many streams at once, by the library alone.
double library_rate(Engine& engine, int streams, int tokens, std::uint64_t seed) {
  const auto begin = Clock::now();
  std::vector<Stream> open;
  for (int i = 0; i < streams; ++i)
    open.push_back(engine.submit(request_of(seed + std::uint64_t(i), tokens)).value());
  for (Stream& stream : open)
    while (stream.next()) {
    }
  return streams * tokens / seconds_since(begin);
}

/// The same over HTTP, on connections that are there already.
double http_rate(asio::io_context& io, std::vector<tcp::socket>& sockets, int tokens,
                 std::uint64_t seed) {
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < sockets.size(); ++i)
    asio::co_spawn(io, ask(sockets[i], http_of(seed + i, tokens)),
                   [](const std::exception_ptr& failed, const Received&) {
                     if (failed)
                       std::rethrow_exception(failed);
                   });
  io.restart();
  io.run();
  return double(sockets.size()) * tokens / seconds_since(begin);
}

double this_thread_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

/// And by gRPC, all on one connection.
double grpc_rate(asio::io_context& io, Client& client, int streams, int tokens,
                 std::uint64_t seed) {
  const auto begin = Clock::now();
  for (int i = 0; i < streams; ++i)
    asio::co_spawn(io, ask(client, request_of(seed + std::uint64_t(i), tokens)),
                   [](const std::exception_ptr& failed, const Told&) {
                     if (failed)
                       std::rethrow_exception(failed);
                   });
  io.restart();
  io.run();
  return double(streams) * tokens / seconds_since(begin);
}

/// Ways to ask, measured in turn, each round in another order.
int overhead(int rounds, const std::string& device) {
  EngineOptions options = device.empty() ? demo_pair() : scripted(device);
  options.max_num_seqs = 32;
  LiveServer server(options);
  for (const int streams : {1, 32}) {
    const int tokens = streams == 1 ? 900 : 256;
    asio::io_context io(1);
    std::vector<tcp::socket> sockets;
    for (int i = 0; i < streams; ++i) {
      sockets.emplace_back(io);
      sockets.back().connect({asio::ip::address_v4::loopback(), server.port()});
    }
    const auto client = client_of(io, server);
    constexpr int ways = 3; // library, HTTP, gRPC
    std::array<std::vector<double>, ways> rates;
    std::array<double, ways> server_seconds{}; // of processor time; the clients' are this thread's
    std::array<double, ways> client_seconds{};
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t seed = 1000 * std::uint64_t(i);
      for (int k = 0; k < ways; ++k) {
        const int way = (i + k) % ways;
        const double server_before = server.thread_seconds();
        const double client_before = this_thread_seconds();
        rates[std::size_t(way)].push_back(
            way == 0   ? library_rate(server.engine(), streams, tokens, seed)
            : way == 1 ? http_rate(io, sockets, tokens, seed)
                       : grpc_rate(io, *client, streams, tokens, seed));
        server_seconds[std::size_t(way)] += server.thread_seconds() - server_before;
        client_seconds[std::size_t(way)] += this_thread_seconds() - client_before;
      }
    }
    for (const int way : {1, 2}) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < std::size_t(rounds); ++i)
        ratios.push_back(rates[std::size_t(way)][i] / rates[0][i]);
      fmt::print("streams {}: over {} {:.0f} tokens/s, {:.3f} of the library's (quartiles {:.3f} "
                 "and {:.3f}, {} rounds)\n",
                 streams, way == 1 ? "HTTP" : "gRPC", quantile(rates[std::size_t(way)], 0.5),
                 quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75), rounds);
      const double millions = double(rounds) * streams * tokens * 1e-6;
      fmt::print(
          "  processor time a token: server's thread {:.2f} us, asking thread {:.2f} us (by the "
          "library {:.2f} us)\n",
          server_seconds[std::size_t(way)] / millions, client_seconds[std::size_t(way)] / millions,
          client_seconds[0] / millions);
    }
  }
  return EXIT_SUCCESS;
}

double process_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

/// So many requests of so many tokens, so many at a time.
struct Burst {
  const char* name;
  int requests;
  int tokens;
  int at_once;
};

asio::awaitable<void> ask_in_turn(Client& client, const Burst& burst, std::vector<double>& took) {
  for (int i = 0; i < burst.requests / burst.at_once; ++i) {
    const auto begin = Clock::now();
    co_await ask(client, request_of(std::uint64_t(i), burst.tokens));
    took.push_back(seconds_since(begin));
  }
}

void ask_in_turn(Engine& engine, const Burst& burst, std::vector<double>& took) {
  for (int i = 0; i < burst.requests / burst.at_once; ++i) {
    const auto begin = Clock::now();
    auto stream = engine.submit(request_of(std::uint64_t(i), burst.tokens)).value();
    while (stream.next()) {
    }
    took.push_back(seconds_since(begin));
  }
}

std::vector<double> by_library(Engine& engine, const Burst& burst) {
  std::vector<std::vector<double>> took(std::size_t(burst.at_once));
  std::vector<std::thread> asking;
  for (auto& own : took)
    asking.emplace_back([&] { ask_in_turn(engine, burst, own); });
  std::vector<double> all;
  for (std::size_t i = 0; i < took.size(); ++i) {
    asking[i].join();
    all.insert(all.end(), took[i].begin(), took[i].end());
  }
  return all;
}

std::vector<double> by_client(asio::io_context& io, Client& client, const Burst& burst) {
  std::vector<double> took;
  for (int i = 0; i < burst.at_once; ++i)
    asio::co_spawn(io, ask_in_turn(client, burst, took), [](const std::exception_ptr& failed) {
      if (failed)
        std::rethrow_exception(failed);
    });
  io.restart();
  io.run();
  return took;
}

/// What a request costs beside the engine's own work.
int requests(int rounds) {
  LiveServer server(scripted());
  asio::io_context io(1);
  const auto client = client_of(io, server);
  for (const Burst& burst : {Burst{"short", 1000, 16, 8}, {"long", 1, 20'000, 1}}) {
    by_client(io, *client, burst); // connects, and grows what grows
    std::vector<double> seconds;
    std::vector<double> own_seconds;
    std::vector<double> latencies;
    std::vector<double> own_latencies;
    for (int i = 0; i < rounds; ++i) {
      const double begin = process_seconds();
      const auto own = by_library(server.engine(), burst);
      const double middle = process_seconds();
      const auto took = by_client(io, *client, burst);
      own_seconds.push_back(middle - begin);
      seconds.push_back(process_seconds() - middle);
      latencies.insert(latencies.end(), took.begin(), took.end());
      own_latencies.insert(own_latencies.end(), own.begin(), own.end());
    }
    fmt::print("{}: {} of {} tokens, by gRPC p50 {:.3f} ms, p99 {:.3f} ms, {:.1f} ms of processor "
               "time (by the library {:.3f}, {:.3f}, {:.1f})\n",
               burst.name, burst.requests, burst.tokens, 1e3 * quantile(latencies, 0.5),
               1e3 * quantile(latencies, 0.99), 1e3 * quantile(seconds, 0.5),
               1e3 * quantile(own_latencies, 0.5), 1e3 * quantile(own_latencies, 0.99),
               1e3 * quantile(own_seconds, 0.5));
  }
  return EXIT_SUCCESS;
}

} // namespace

int main(int count, char** arguments) {
  doctest::Context checks;
  end_at_failed_checks(checks);
  const std::string what = count > 1 ? arguments[1] : "";
  const auto number = [&](int index, int otherwise) {
    return count > index ? std::atoi(arguments[index]) : otherwise;
  };
  if (what == "overhead")
    return overhead(number(2, 21), count > 3 ? arguments[3] : "");
  if (what == "requests")
    return requests(number(2, 9));
  if (what != "soak") {
    fmt::print(stderr,
               "usage: serve_load soak SECONDS [HTTP [GRPC]] | overhead [ROUNDS [DEVICE]] | "
               "requests [ROUNDS]\n");
    return 2;
  }
  EngineOptions options = demo_pair();
  options.max_num_seqs = 32;
  LiveServer server(options);
  return Soak(server, number(2, 20)).run(number(3, 200), number(4, 50));
}
