// Asks a server as one asks an engine: two requests at once over one connection, streamed as they
// come, and asked for again if the connection breaks.
//
//   paceline serve --grpc-port 8001 &  paceline_example_remote 8001
#include "paceline/client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace asio = boost::asio;
using asio::use_awaitable;

asio::awaitable<void> ask(paceline::Client& client, const char* prompt) {
  paceline::Request request;
  request.prompt = prompt;
  request.max_tokens = 48;
  request.sampling.seed = 1; // A seed makes the answer repeat itself, so it may be retried.
  auto stream = co_await client.async_submit(std::move(request), {.retries = 3}, use_awaitable);
  if (!stream) {
    std::fprintf(stderr, "%s\n", stream.error().text().c_str());
    co_return;
  }
  std::string text;
  while (auto event = co_await stream->async_next(use_awaitable)) {
    if (const auto* delta = std::get_if<paceline::Delta>(&*event))
      text += delta->text;
    else if (const auto* end = std::get_if<paceline::Finished>(&*event))
      std::printf("%s%s\n-- %s\n", prompt, text.c_str(), to_string(end->reason));
  }
}

int main(int count, char** arguments) {
  asio::io_context io(1);
  paceline::ClientOptions options;
  if (count > 1)
    options.port = std::uint16_t(std::atoi(arguments[1]));
  paceline::Client client(io.get_executor(), options);
  const auto rethrow = [](const std::exception_ptr& failed) {
    if (failed)
      std::rethrow_exception(failed);
  };
  asio::co_spawn(io, ask(client, "def fibonacci(n):"), rethrow);
  asio::co_spawn(io, ask(client, "class Stack:"), rethrow);
  io.run(); // This returns when both have ended.
}
