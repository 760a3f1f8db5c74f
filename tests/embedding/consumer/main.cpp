// An engine inside a program that has an io_context and an actor system of its own.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <caf/all.hpp>
#include <cstdio>
#include <paceline/asio.hpp>
#include <variant>

namespace {

caf::behavior shouting() {
  return {[](const std::string& text) { return text + "!"; }};
}

boost::asio::awaitable<std::string> text_of(paceline::AsyncEngine& service) {
  paceline::Request request;
  request.prompt = "def add(a, b):";
  request.max_tokens = 8;
  auto stream = co_await service.async_submit(request, boost::asio::use_awaitable);
  std::string text;
  while (auto event = co_await stream.value().async_next(boost::asio::use_awaitable))
    if (const auto* delta = std::get_if<paceline::Delta>(&*event))
      text += delta->text;
  co_return text;
}

} // namespace

int main() {
  boost::asio::io_context io;
  auto engine = paceline::Engine::open({});
  if (!engine)
    return std::fprintf(stderr, "%s\n", engine.error().text().c_str()), 1;
  caf::actor_system_config configuration;
  caf::actor_system system(configuration);
  const caf::actor shout = system.spawn(shouting);

  paceline::AsyncEngine service(io.get_executor(), *engine);
  auto text = boost::asio::co_spawn(io, text_of(service), boost::asio::use_future);
  io.run();

  caf::scoped_actor self(system);
  std::string shouted;
  self->request(shout, caf::infinite, text.get())
      .receive(
          [&](const std::string& answer) { shouted = answer; },
          [](const caf::error& error) { std::fprintf(stderr, "%s\n", to_string(error).c_str()); });
  return shouted.size() > 1 && shouted.back() == '!' ? 0 : 1;
}
