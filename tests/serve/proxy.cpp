#include "tests/serve/proxy.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace paceline::testing {
namespace asio = boost::asio;
using asio::ip::tcp;

struct Proxy::Pair {
  explicit Pair(tcp::socket from) : client(std::move(from)), server(client.get_executor()) {}
  void close() {
    boost::system::error_code ignored;
    client.close(ignored);
    server.close(ignored);
  }
  tcp::socket client;
  tcp::socket server;
  std::size_t budget = std::size_t(-1);
};

Proxy::Proxy(std::uint16_t server, std::vector<std::size_t> budgets, std::uint16_t later)
    : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), server_(server),
      later_(later != 0 ? later : server), budgets_(std::move(budgets)) {
  asio::co_spawn(io_, accept(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

Proxy::Proxy(std::uint16_t server, Ragged) : Proxy(server, std::vector<std::size_t>()) {
  asio::post(io_, [this] { ragged_ = true; });
}

Proxy::~Proxy() {
  asio::post(io_, [this] {
    acceptor_.close();
    for (Pair* pair : pairs_)
      pair->close();
  });
  thread_.join();
}

asio::awaitable<void> Proxy::accept() {
  for (;;) {
    auto [failed, socket] = co_await acceptor_.async_accept(asio::as_tuple(asio::use_awaitable));
    if (failed)
      co_return;
    const auto pair = std::make_shared<Pair>(std::move(socket));
    const bool breaks = accepted_ < budgets_.size();
    if (breaks)
      pair->budget = budgets_[accepted_];
    ++accepted_;
    boost::system::error_code refused;
    pair->server.connect({asio::ip::address_v4::loopback(), breaks ? server_ : later_}, refused);
    if (refused)
      continue;
    pairs_.insert(pair.get());
    asio::co_spawn(io_, forward(pair, true), asio::detached);
    asio::co_spawn(io_, forward(pair, false), asio::detached);
  }
}

/// Waits for a moment, sometimes.
asio::awaitable<void> Proxy::dawdle() {
  if (random_() % 32 != 0)
    co_return;
  asio::steady_timer moment(io_, std::chrono::microseconds(random_() % 1000));
  co_await moment.async_wait(asio::as_tuple(asio::use_awaitable));
}

asio::awaitable<void> Proxy::forward(std::shared_ptr<Pair> pair, bool up) {
  tcp::socket& from = up ? pair->client : pair->server;
  tcp::socket& to = up ? pair->server : pair->client;
  std::array<char, 256> part{};
  for (;;) {
    const std::size_t most = ragged_ ? 1 + random_() % part.size() : part.size();
    const auto [ended, read] = co_await from.async_read_some(asio::buffer(part.data(), most),
                                                             asio::as_tuple(asio::use_awaitable));
    if (ragged_)
      co_await dawdle();
    const std::size_t count = std::min(read, pair->budget);
    pair->budget -= count;
    const auto [failed, wrote] = co_await asio::async_write(to, asio::buffer(part.data(), count),
                                                            asio::as_tuple(asio::use_awaitable));
    if (ended || failed || pair->budget == 0)
      break;
  }
  pair->close();
  pairs_.erase(pair.get());
}

} // namespace paceline::testing
