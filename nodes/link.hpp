// One end of a connection: values to frames, frames to values.
#pragma once

#include "messages/caf.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace paceline::nodes {

/// Bytes in order, both ways, until they end: what a link needs of a connection. Threads: the
/// link's actor's.
class Pipe {
public:
  virtual ~Pipe() = default;
  /// What goes with the next flush is appended here; what is there is not sent yet.
  virtual std::vector<char>& unsent() = 0;
  virtual void flush() = 0;
  /// From now on Link::received is told of just so many bytes at a time.
  virtual void await(std::size_t bytes) = 0;
  /// Reads no more, and with `both_ways` writes no more.
  virtual void shut(bool both_ways) = 0;
  /// Why the peer is not trusted; empty: it is, or nobody knows yet.
  virtual std::string distrust() const { return {}; }
};

enum class LinkEnd { engine, node };

/// What a connection's actor does: it tells `owner` the values that come, and ends with it. Bounds
/// what a peer may announce, and knows which values are whose (frames.hpp).
class Link {
public:
  virtual ~Link() = default;
  virtual void received(const std::vector<char>& bytes) = 0;
  /// The peer has closed the connection, or shows no certificate that is trusted.
  virtual void closed() = 0;
  /// Returns the handlers of the values that are to cross. They keep the link alive.
  virtual caf::message_handler handlers() = 0;
};

/// self: whose behavior has the handlers, and who is told by the pipe what arrives.
std::shared_ptr<Link> make_link(caf::scheduled_actor* self, std::unique_ptr<Pipe> pipe,
                                caf::actor owner, LinkEnd end);

} // namespace paceline::nodes
