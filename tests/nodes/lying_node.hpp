// A node that lies: an honest one, and who stands in front of it and changes what it says.
#pragma once

#include "messages/node.hpp"
#include "nodes/frames.hpp"
#include "paceline/engine.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace paceline::testing {

/// Takes an engine's log: what it says of each lie would bury a check that fails.
inline void unheard(LogLevel, const std::string&) {}

/// A frame as it crosses.
struct Frame {
  nodes::FrameKind kind{};
  std::vector<char> bytes; ///< With its header.

  template <class Value>
  std::optional<Value> as() const {
    std::optional<Value> value;
    const auto content = std::span(bytes).subspan(nodes::frame_header_bytes);
    nodes::read_frame(kind, content, [&](auto read) {
      if constexpr (std::is_same_v<decltype(read), Value>)
        value = std::move(read);
    });
    return value;
  }
};

/// Adds a frame with the value.
template <class Value>
void append(Frame& to, const Value& value) {
  nodes::append_frame(to.bytes, value);
}
template <class Value>
void set(Frame& frame, const Value& value) {
  frame.bytes.clear();
  append(frame, value);
}

/// What the engine has asked for last, by sequence.
using Asked = std::map<speculation::SequenceId, messages::DraftFrom>;
/// Changes what the node says, or leaves it. True: it is a lie now.
using Lie = std::function<bool(Frame& said, const Asked& asked)>;

struct NamedLie {
  const char* name;
  Lie lie;
};
/// Changes each frame of a kind, or adds to it.
Lie of_kind(nodes::FrameKind kind, std::function<void(Frame&)> lie);
/// What is no value of this protocol, behind frames of a kind.
std::vector<NamedLie> broken_frames(nodes::FrameKind behind);

/// Listens on loopback, connects to the node for each connection, and passes frames on in either
/// direction. Threads: any; two of its own for each connection.
class LyingNode {
public:
  explicit LyingNode(std::uint16_t honest);
  ~LyingNode();
  LyingNode(const LyingNode&) = delete;
  LyingNode& operator=(const LyingNode&) = delete;

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  /// Lies from now on: on the first connection with something to lie about, until that ends.
  void begin(Lie lie);
  /// Lies from now on, on every connection.
  void begin_for_ever(Lie lie);
  /// No more of it, and what became of it is forgotten.
  void stop();
  /// It has lied.
  bool lied() const;
  /// It has lied, and the engine has ended that connection.
  bool cut_off() const;
  /// Waits for that; false: it has not come.
  bool await_cut_off() const;
  /// Connections that there have been.
  int connections() const;
  /// Ends those that there are.
  void cut();

private:
  struct Connection {
    explicit Connection(boost::asio::io_context& io) : engine(io), node(io) {}
    void end();
    boost::asio::ip::tcp::socket engine;
    boost::asio::ip::tcp::socket node;
    Asked asked;
    std::atomic<bool> over{false};
    std::thread to_node;
    std::thread to_engine;
  };

  void accept();
  void serve_engine(Connection& with);
  void serve_node(Connection& with);
  void ended_by_engine(const Connection& it);
  void pass_through_lie(const Connection& with, Frame& said);

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t honest_;
  mutable std::mutex mutex_; ///< Of all below.
  mutable std::condition_variable news_;
  std::list<Connection> connections_;
  Lie lie_;
  bool for_ever_ = false;
  const Connection* liar_ = nullptr; ///< On which it has lied.
  bool cut_off_ = false;
  bool closed_ = false;
  std::thread accepting_;
};

} // namespace paceline::testing
