// A client of the library, and what tests ask with it.
#pragma once

#include "paceline/client.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/engine_fixture.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include <vector>

namespace paceline::testing {

/// Runs a coroutine to its end.
template <class T>
T run(boost::asio::io_context& io, boost::asio::awaitable<T> work) {
  auto result = boost::asio::co_spawn(io, std::move(work), boost::asio::use_future);
  io.restart();
  io.run();
  return result.get();
}

inline Request prompt(int tokens) {
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = tokens;
  request.sampling.seed = 5;
  return request;
}

/// All events of a stream.
inline boost::asio::awaitable<Answer> read_stream(AsyncStream stream) {
  Answer answer;
  while (auto event = co_await stream.async_next(boost::asio::use_awaitable))
    answer.add(std::move(*event));
  co_return answer;
}

/// A request's whole answer; one that was not accepted ends with why.
inline boost::asio::awaitable<Answer> ask_remote(Client& client, Request request,
                                                 SubmitOptions options = {}) {
  auto stream =
      co_await client.async_submit(std::move(request), options, boost::asio::use_awaitable);
  if (stream)
    co_return co_await read_stream(std::move(*stream));
  Answer refused;
  Finished end;
  end.reason = FinishReason::error;
  end.error = std::move(stream.error());
  refused.add(std::move(end));
  co_return refused;
}

/// All at once, over one connection.
inline std::vector<Answer> ask_remotely(boost::asio::io_context& io, Client& client,
                                        const std::vector<Request>& requests,
                                        SubmitOptions options = {}) {
  std::vector<std::future<Answer>> pending;
  for (const Request& request : requests)
    pending.push_back(
        boost::asio::co_spawn(io, ask_remote(client, request, options), boost::asio::use_future));
  io.restart();
  io.run();
  std::vector<Answer> answers;
  for (auto& one : pending)
    answers.push_back(one.get());
  return answers;
}

/// A server, and a client of it.
struct Remote {
  explicit Remote(EngineOptions engine = demo_pair(), const apps::serve::Settings& settings = {},
                  ClientOptions options = {})
      : server(std::move(engine), settings),
        client(io.get_executor(), at(std::move(options), server.grpc_port())) {}

  static ClientOptions at(ClientOptions options, std::uint16_t port) {
    options.port = port;
    return options;
  }

  boost::asio::io_context io{1};
  LiveServer server;
  Client client;
};

} // namespace paceline::testing
