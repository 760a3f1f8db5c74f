// One end of a connection, which turns values into frames and frames into values.
#pragma once

#include "messages/caf.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace paceline::nodes {

/// A stream of bytes in order, both ways, until it ends: the connection that a link needs. Threads:
/// the link's actor's.
class Pipe {
public:
  virtual ~Pipe() = default;
  /// Returns the bytes that go with the next flush, to which the caller appends; none of them is
  /// sent yet.
  virtual std::vector<char>& unsent() = 0;
  virtual void flush() = 0;
  /// Makes Link::received get exactly so many bytes at a time from now on.
  virtual void await(std::size_t bytes) = 0;
  /// Reads no more, and with `both_ways` writes no more.
  virtual void shut(bool both_ways) = 0;
  /// Returns why the peer is not trusted; empty: it is, or that is not known yet.
  virtual std::string distrust() const { return {}; }
};

enum class LinkEnd { engine, node };

/// The work of a connection's actor: it tells `owner` the values that come, and ends with it. It
/// bounds what a peer may announce, and knows which values are whose (frames.hpp).
class Link {
public:
  virtual ~Link() = default;
  virtual void received(const std::vector<char>& bytes) = 0;
  /// Is called when the peer has closed the connection, or shows no certificate that is trusted.
  virtual void closed() = 0;
  /// Returns the handlers of the values that are to cross. They keep the link alive.
  virtual caf::message_handler handlers() = 0;
};

/// self: an actor whose behavior has the handlers, and which the pipe tells what arrives.
std::shared_ptr<Link> make_link(caf::scheduled_actor* self, std::unique_ptr<Pipe> pipe,
                                caf::actor owner, LinkEnd end);

} // namespace paceline::nodes
