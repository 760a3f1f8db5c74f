// Several requests at once, decoded as one batch: one runs to its end, one is cancelled after its
// first words, one has a deadline. Prints how each ended.
#include "paceline/asio.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <exception>

namespace asio = boost::asio;
using asio::use_awaitable;

paceline::Request request(const char* prompt) {
  paceline::Request request;
  request.prompt = prompt;
  request.max_tokens = 64;
  return request;
}

void report(const char* name, const paceline::Finished& end) {
  std::printf("%s: %s\n", name, to_string(end.reason));
}

asio::awaitable<void> whole(paceline::AsyncEngine& service) {
  auto answer = co_await service.async_complete(request("def fibonacci(n):"), use_awaitable);
  if (answer)
    report("whole", answer->end);
}

asio::awaitable<void> cancelled(paceline::AsyncEngine& service) {
  auto asked = request("import os\n");
  asked.max_tokens.reset(); // It may be as long as the context allows.
  asked.ignore_eos = true;
  auto stream = co_await service.async_submit(std::move(asked), use_awaitable);
  if (!stream)
    co_return;
  while (auto event = co_await stream->async_next(use_awaitable)) {
    if (std::holds_alternative<paceline::Delta>(*event))
      stream->cancel(); // The first words are enough.
    else if (const auto* end = std::get_if<paceline::Finished>(&*event))
      report("cancelled", *end);
  }
}

asio::awaitable<void> in_time(paceline::AsyncEngine& service) {
  auto asked = request("class Stack:");
  asked.max_tokens.reset();
  asked.ignore_eos = true;
  asked.deadline = std::chrono::milliseconds(1);
  auto answer = co_await service.async_complete(std::move(asked), use_awaitable);
  if (answer)
    report("deadline", answer->end);
}

int main() {
  asio::io_context io(1); // It must outlive the engine, whose threads post to it.
  auto engine = paceline::Engine::open({});
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  paceline::AsyncEngine service(io.get_executor(), *engine);
  const auto rethrow = [](const std::exception_ptr& failed) {
    if (failed)
      std::rethrow_exception(failed);
  };
  asio::co_spawn(io, whole(service), rethrow);
  asio::co_spawn(io, cancelled(service), rethrow);
  asio::co_spawn(io, in_time(service), rethrow);
  io.run(); // This returns when all have ended.
}
