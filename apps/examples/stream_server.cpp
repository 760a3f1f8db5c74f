// A server of coroutines: each connection sends a line and gets its continuation back, as it comes.
//
//   paceline_example_stream_server 7777 &  echo "def fibonacci(n):" | nc -N localhost 7777
//
// One thread serves all connections. A client that goes away ends its request: the write fails, the
// coroutine ends, and with it the stream.
#include "paceline/asio.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <cstdlib>

namespace asio = boost::asio;
using asio::use_awaitable;
using asio::ip::tcp;

asio::awaitable<void> serve(tcp::socket socket, paceline::Engine& engine) {
  std::string line;
  constexpr std::size_t longest = 4096;
  co_await asio::async_read_until(socket, asio::dynamic_buffer(line, longest), '\n', use_awaitable);
  paceline::Request request;
  request.prompt = line.substr(0, line.find('\n'));
  request.max_tokens = 48;

  paceline::AsyncEngine service(socket.get_executor(), engine);
  auto stream = co_await service.async_submit(std::move(request), use_awaitable);
  if (!stream) {
    co_await asio::async_write(socket, asio::buffer(stream.error().text() + '\n'), use_awaitable);
    co_return;
  }
  while (auto event = co_await stream->async_next(use_awaitable))
    if (const auto* delta = std::get_if<paceline::Delta>(&*event))
      co_await asio::async_write(socket, asio::buffer(delta->text), use_awaitable);
  co_await asio::async_write(socket, asio::buffer("\n", 1), use_awaitable);
}

asio::awaitable<void> accept(tcp::acceptor& acceptor, paceline::Engine& engine) {
  for (;;) {
    auto socket = co_await acceptor.async_accept(use_awaitable);
    asio::co_spawn(acceptor.get_executor(), serve(std::move(socket), engine), asio::detached);
  }
}

int main(int count, char** arguments) {
  const auto port = std::uint16_t(count > 1 ? std::atoi(arguments[1]) : 0);
  asio::io_context io(1); // It must outlive the engine, whose threads post to it.
  auto engine = paceline::Engine::open({});
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), port});
  asio::co_spawn(io, accept(acceptor, *engine), asio::detached);
  asio::signal_set stop(io, SIGINT, SIGTERM);
  stop.async_wait([&](auto, int) { io.stop(); });
  std::printf("port %d\n", int(acceptor.local_endpoint().port()));
  std::fflush(stdout);
  io.run();
  engine->shutdown(std::chrono::seconds(0));
}
