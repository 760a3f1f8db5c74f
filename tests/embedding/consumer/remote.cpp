// A program that asks a server and has no engine.
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <cstdlib>
#include <paceline/client.hpp>

int main(int, char** arguments) {
  boost::asio::io_context io;
  paceline::ClientOptions options;
  options.port = std::uint16_t(std::atoi(arguments[1]));
  paceline::Client client(io.get_executor(), options);
  paceline::Request request;
  request.prompt = "def add(a, b):";
  request.max_tokens = 8;
  auto pending = client.async_complete(request, boost::asio::use_future);
  io.run();
  const auto answer = pending.get();
  if (!answer)
    return std::fprintf(stderr, "%s\n", answer.error().text().c_str()), 1;
  return !answer->tokens.empty() && to_string(answer->end.reason)[0] != 0 ? 0 : 1;
}
