// An engine and a client of a server in one program: the same request, the same answer.
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <cstdlib>
#include <paceline/client.hpp>

int main(int, char** arguments) {
  boost::asio::io_context io;
  auto engine = paceline::Engine::open({});
  if (!engine)
    return std::fprintf(stderr, "%s\n", engine.error().text().c_str()), 1;
  paceline::ClientOptions options;
  options.port = std::uint16_t(std::atoi(arguments[1]));
  paceline::Client client(io.get_executor(), options);
  paceline::AsyncEngine here(io.get_executor(), *engine);
  paceline::Request request;
  request.prompt = "def add(a, b):";
  request.max_tokens = 24;
  request.sampling.seed = 3;
  auto far = client.async_complete(request, boost::asio::use_future);
  auto near = here.async_complete(request, boost::asio::use_future);
  io.run();
  return far.get().value().tokens == near.get().value().tokens ? 0 : 1;
}
