// A wire between two programs of this machine that delays what it carries, and can be cut.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace paceline::testing {

/// How late things came, beyond the delay that was asked for.
struct Lateness {
  std::uint64_t count = 0;
  std::chrono::nanoseconds mean{};
  std::chrono::nanoseconds p99{};
};

/// Listens on loopback, connects to a port of it for each connection, and passes bytes on in either
/// direction, each after its delay and none before another. Its thread goes before all others where
/// this user may say so. It is no kernel's delay: bytes are in user space twice, and who sends sees
/// a peer that acknowledges at once. Threads: any.
class Relay {
public:
  struct Options {
    std::uint16_t listen_port = 0; ///< 0: one that is free.
    std::string to_host = "127.0.0.1";
    std::uint16_t to_port = 0;
    std::chrono::microseconds delay{0}; ///< One way.
    double bytes_per_second = 0;        ///< One way; 0: as fast as it can.
  };
  /// Throws boost::system::system_error where it cannot listen.
  explicit Relay(const Options& options);
  ~Relay();

  std::uint16_t port() const;
  /// Every connection ends, half of what is under way still arrives: messages end in their middle.
  void cut();
  /// Nothing passes any more, and no connection ends: a wire that is unplugged. false: it is back.
  void unplug(bool unplugged);
  Lateness lateness() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace paceline::testing
