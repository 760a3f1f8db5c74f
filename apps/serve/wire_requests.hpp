// The requests of one connection of the protocol over TCP.
#pragma once

#include "apps/serve/service.hpp"
#include "net/frames.hpp"

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>

namespace paceline::apps::serve {

/// Holds back at most one event of each request; what comes meanwhile the engine's streams join to
/// one, so a client that does not read costs ids and text. Threads: the server's only.
class WireRequests {
public:
  /// news: called when `ready` becomes true.
  WireRequests(Service& service, std::string peer, std::function<void()> news);
  WireRequests(const WireRequests&) = delete;
  WireRequests& operator=(const WireRequests&) = delete;
  ~WireRequests();

  /// Starts it; what the client is told of that: Accepted, or a Failure.
  boost::asio::awaitable<net::ToClient> submit(net::Submit asked);
  /// Of all that is submitted from now on.
  void set_client(Holder client) { client_ = std::move(client); }
  /// One that has ended, or never was, is none.
  void cancel(net::RequestNumber number);

  bool ready() const;
  /// Something that should not wait for more: a first token, an end, or what stands before one.
  bool urgent() const;
  /// Appends frames of what has happened, until there are `most` bytes of them.
  void take(std::string& frames, std::size_t most);
  /// What was taken has been written: requests whose end that was are over.
  void written();

  /// The client has gone: cancels everything, and waits for the ends, which are only counted.
  boost::asio::awaitable<void> abandon();

private:
  struct One;
  struct Shared;
  static void listen(const std::shared_ptr<Shared>& shared, One& one);
  Result<void> prepare(const Replica& replica, Request& request) const;
  boost::asio::awaitable<Result<void>> encode(const Replica& replica, Request& request,
                                              MemoryShare& memory) const;
  void note(One& one, Event& event);

  Service& service_;
  std::string peer_;
  Holder client_;
  std::shared_ptr<Shared> shared_; // handlers look for it
};

} // namespace paceline::apps::serve
