// A proxy between client and server that breaks connections where it is told to, or tears what goes
// through them to pieces.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace paceline::testing {

class Proxy {
public:
  /// The i-th connection breaks when budgets[i] bytes have gone through it, both ways together;
  /// those after that do not, and go to the port `later`, if that is given.
  Proxy(std::uint16_t server, std::vector<std::size_t> budgets, std::uint16_t later = 0);
  /// One that breaks none, and hands on pieces of random lengths after random delays.
  struct Ragged {};
  Proxy(std::uint16_t server, Ragged);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

private:
  struct Pair;
  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> forward(std::shared_ptr<Pair> pair, bool up);
  boost::asio::awaitable<void> dawdle();

  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t server_;
  std::uint16_t later_;
  std::vector<std::size_t> budgets_;
  std::size_t accepted_ = 0;
  bool ragged_ = false;
  std::mt19937 random_{1}; // of the io_context's thread
  std::set<Pair*> pairs_;
  std::thread thread_;
};

} // namespace paceline::testing
