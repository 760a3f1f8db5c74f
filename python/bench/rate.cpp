// What python/bench/rate.py compares Python with: streams of the demo pair, a thread for each, as a
// program in C++ reads them. Prints tokens a second.
//
//   paceline_rate STREAMS TOKENS
#include "paceline/engine.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void read(paceline::Engine& engine, int number, int tokens) {
  paceline::Request request;
  request.prompt = "x = " + std::to_string(number) + "\n";
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.sampling.seed = std::uint64_t(number);
  auto stream = engine.submit(request);
  while (stream && stream->next()) {
  }
}

void read_all(paceline::Engine& engine, int streams, int tokens) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < streams; ++i)
    threads.emplace_back([&engine, i, tokens] { read(engine, i, tokens); });
}

} // namespace

int main(int count, char** arguments) {
  const int streams = count > 1 ? std::atoi(arguments[1]) : 32;
  const int tokens = count > 2 ? std::atoi(arguments[2]) : 128;
  paceline::EngineOptions options;
  options.max_num_seqs = streams;
  auto engine = paceline::Engine::open(options);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  read_all(*engine, streams, tokens); // warms up
  const auto begin = std::chrono::steady_clock::now();
  read_all(*engine, streams, tokens);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf("%.1f\n", streams * tokens / time.count());
}
