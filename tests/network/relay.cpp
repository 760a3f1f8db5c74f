#include "tests/network/relay.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <list>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

namespace paceline::testing {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t waiting_bytes_max = 16 << 20; ///< In one direction; then nothing is read.

/// What all connections share. Threads: the relay's.
struct Wire {
  Relay::Options options;
  bool unplugged = false;
  std::mutex mutex; ///< Of the rest.
  std::vector<std::chrono::nanoseconds> late;
};

struct Piece {
  Clock::time_point due;
  std::vector<char> bytes;
};

/// One direction of a connection.
class Direction : public std::enable_shared_from_this<Direction> {
public:
  Direction(Wire& wire, std::shared_ptr<tcp::socket> from, std::shared_ptr<tcp::socket> to)
      : wire_(wire), from_(std::move(from)), to_(std::move(to)), timer_(from_->get_executor()) {}

  void read() {
    reading_ = true;
    from_->async_read_some(asio::buffer(buffer_),
                           [self = shared_from_this()](error_code wrong, std::size_t size) {
                             self->reading_ = false;
                             if (wrong)
                               return self->take({});
                             self->take({self->buffer_.data(), self->buffer_.data() + size});
                           });
  }
  void pass_on() {
    if (writing_ || wire_.unplugged || pieces_.empty())
      return;
    timer_.expires_at(pieces_.front().due);
    timer_.async_wait([self = shared_from_this()](error_code wrong) {
      if (!wrong)
        self->write();
    });
  }
  /// Half of the first piece still goes.
  void cut() {
    error_code ignored;
    if (!pieces_.empty() && !writing_ && !pieces_.front().bytes.empty())
      to_->write_some(asio::buffer(pieces_.front().bytes.data(), pieces_.front().bytes.size() / 2),
                      ignored);
    pieces_.clear();
    timer_.cancel();
    from_->close(ignored);
    to_->close(ignored);
  }

private:
  /// Nothing: the end.
  void take(std::vector<char> bytes) {
    const auto now = Clock::now();
    if (wire_.options.bytes_per_second > 0)
      sent_ = std::max(sent_, now) +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                  double(bytes.size()) / wire_.options.bytes_per_second));
    const bool ended = bytes.empty();
    waiting_ += bytes.size();
    pieces_.push_back({std::max(sent_, now) + wire_.options.delay, std::move(bytes)});
    if (pieces_.size() == 1)
      pass_on();
    if (!ended && waiting_ < waiting_bytes_max)
      read();
  }
  void write() {
    if (writing_ || wire_.unplugged || pieces_.empty())
      return;
    const Piece& piece = pieces_.front();
    {
      const std::lock_guard lock(wire_.mutex);
      if (wire_.late.size() < 1'000'000)
        wire_.late.push_back(Clock::now() - piece.due);
    }
    if (piece.bytes.empty()) {
      error_code ignored;
      to_->shutdown(tcp::socket::shutdown_send, ignored);
      return;
    }
    writing_ = true;
    asio::async_write(*to_, asio::buffer(piece.bytes),
                      [self = shared_from_this()](error_code wrong, std::size_t) {
                        self->writing_ = false;
                        if (wrong)
                          return self->cut();
                        self->written();
                      });
  }
  void written() {
    if (pieces_.empty())
      return;
    waiting_ -= pieces_.front().bytes.size();
    pieces_.pop_front();
    pass_on();
    if (!reading_ && waiting_ < waiting_bytes_max && from_->is_open())
      read();
  }

  Wire& wire_;
  std::shared_ptr<tcp::socket> from_, to_;
  asio::steady_timer timer_;
  std::array<char, 64 << 10> buffer_{};
  std::deque<Piece> pieces_;
  std::size_t waiting_ = 0;
  Clock::time_point sent_;
  bool reading_ = false;
  bool writing_ = false;
};

void go_first(std::thread& thread) {
  const sched_param first{.sched_priority = 1};
  pthread_setschedparam(thread.native_handle(), SCHED_RR, &first);
}

} // namespace

struct Relay::State {
  asio::io_context io;
  tcp::acceptor acceptor{io};
  Wire wire;
  std::list<std::weak_ptr<Direction>> directions;
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](error_code wrong, tcp::socket socket) {
      if (wrong)
        return;
      connect(std::make_shared<tcp::socket>(std::move(socket)));
      accept();
    });
  }
  void connect(const std::shared_ptr<tcp::socket>& here) {
    const auto there = std::make_shared<tcp::socket>(io);
    const tcp::endpoint end(asio::ip::make_address(wire.options.to_host), wire.options.to_port);
    there->async_connect(end, [this, here, there](error_code wrong) {
      if (wrong)
        return;
      error_code ignored;
      here->set_option(tcp::no_delay(true), ignored);
      there->set_option(tcp::no_delay(true), ignored);
      for (const auto& direction : {std::make_shared<Direction>(wire, here, there),
                                    std::make_shared<Direction>(wire, there, here)}) {
        directions.push_back(direction);
        direction->read();
      }
    });
  }
  template <class Do>
  void each(const Do& act) {
    directions.remove_if([](const auto& direction) { return direction.expired(); });
    for (const auto& direction : directions)
      if (const auto alive = direction.lock())
        act(*alive);
  }
};

Relay::Relay(const Options& options) : state_(std::make_shared<State>()) {
  state_->wire.options = options;
  const tcp::endpoint end(asio::ip::address_v4::loopback(), options.listen_port);
  state_->acceptor.open(end.protocol());
  state_->acceptor.set_option(tcp::acceptor::reuse_address(true));
  state_->acceptor.bind(end);
  state_->acceptor.listen();
  state_->accept();
  state_->thread = std::thread([state = state_.get()] { state->io.run(); });
  go_first(state_->thread);
}

Relay::~Relay() {
  state_->io.stop();
  state_->thread.join();
}

std::uint16_t Relay::port() const {
  return state_->acceptor.local_endpoint().port();
}

void Relay::cut() {
  asio::post(state_->io, [state = state_.get()] { state->each([](auto& each) { each.cut(); }); });
}

void Relay::unplug(bool unplugged) {
  asio::post(state_->io, [state = state_.get(), unplugged] {
    state->wire.unplugged = unplugged;
    state->each([](auto& each) { each.pass_on(); });
  });
}

Lateness Relay::lateness() const {
  const std::lock_guard lock(state_->wire.mutex);
  auto late = state_->wire.late;
  Lateness all{late.size(), {}, {}};
  if (late.empty())
    return all;
  std::sort(late.begin(), late.end());
  for (const auto each : late)
    all.mean += each;
  all.mean /= std::int64_t(late.size());
  all.p99 = late[late.size() * 99 / 100];
  return all;
}

} // namespace paceline::testing
