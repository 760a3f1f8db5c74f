#include "nodes/link.hpp"

#include "nodes/frames.hpp"
#include "nodes/limits.hpp"
#include "nodes/network.hpp"
#include "nodes/tls.hpp"

#include <caf/io/broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/send.hpp>
#include <fmt/format.h>

#include <deque>
#include <memory>
#include <sys/socket.h>

namespace paceline::nodes {
namespace {

using caf::io::broker;
using caf::io::connection_handle;
using caf::io::receive_policy;

/// Tells the owner if TLS has found the peer not to be trusted.
void say_distrust(caf::scheduled_actor* self, const caf::actor& owner,
                  const std::string& distrust) {
  if (!distrust.empty())
    caf::unsafe_send_as(self, owner,
                        messages::Refused{{ErrorCode::unavailable, distrust,
                                           "see docs/machines.md about certificates and their "
                                           "hosts"},
                                          false});
}

class FrameLink final : public Link, public std::enable_shared_from_this<FrameLink> {
public:
  FrameLink(caf::scheduled_actor* self, std::unique_ptr<Pipe> pipe, caf::actor owner, LinkEnd end)
      : self_(self), pipe_(std::move(pipe)), owner_(std::move(owner)), end_(end) {
    self_->link_to(owner_);
    self_->set_exit_handler([this](const caf::exit_msg&) { lost(); });
    pipe_->await(frame_header_bytes);
  }

  void received(const std::vector<char>& bytes) override {
    if (header_)
      take(std::exchange(header_, std::nullopt).value(), bytes);
    else
      begin(read_header(bytes));
  }
  void closed() override {
    say_distrust(self_, owner_, pipe_->distrust());
    self_->quit(caf::exit_reason::remote_link_unreachable);
  }
  caf::message_handler handlers() override;
  /// Ends the connection at this end. It does not wait for the peer to do the same, which may stand
  /// still; a node still writes what it has refused.
  void lost() {
    pipe_->shut(end_ == LinkEnd::engine);
    closed();
  }

  /// Notes that the owner has taken the oldest value that it was told.
  void note_taken() {
    if (waiting_.empty())
      return;
    waiting_bytes_ -= waiting_.front();
    waiting_.pop_front();
  }

  void write(const messages::ModelTaken& value) {
    --parts_;
    write<messages::ModelTaken>(value);
  }
  void write(const messages::StageDone& value) {
    --pieces_;
    write<messages::StageDone>(value);
  }
  template <class Value>
  void write(const Value& value) {
    auto& unsent = pipe_->unsent();
    append_frame(unsent, value);
    if (unsent.size() > limits::unsent_bytes_max)
      return lost();
    pipe_->flush();
  }

private:
  /// Begins a frame of this protocol, or a refusal, which a peer may send in any protocol.
  void begin(const std::optional<FrameHeader>& header) {
    if (!header || header->size > most())
      return lost();
    if (header->kind != FrameKind::refusal && header->protocol != node_protocol)
      return refuse_protocol(header->protocol);
    if (header->size == 0)
      return take(*header, {});
    header_ = header;
    pipe_->await(header->size);
  }

  std::uint32_t most() const {
    if (!introduced_)
      return limits::first_frame_bytes_max;
    return end_ == LinkEnd::node ? limits::node_frame_bytes_max : limits::engine_frame_bytes_max;
  }

  /// Whether the frame says who the peer is, or what it wants.
  bool introduces(FrameKind kind) const {
    return end_ == LinkEnd::engine || kind == FrameKind::OpenDraft ||
           kind == FrameKind::OpenStage || kind == FrameKind::Survey;
  }

  void refuse_protocol(int theirs) {
    append_refusal(pipe_->unsent(),
                   fmt::format("one end speaks protocol {} of nodes and the other {}: install the "
                               "same version of paceline on both machines",
                               node_protocol, theirs));
    pipe_->flush();
    lost();
  }

  void take(const FrameHeader& header, std::span<const char> content) {
    pipe_->await(frame_header_bytes);
    introduced_ |= introduces(header.kind);
    if (header.kind == FrameKind::refusal) {
      tell_owner(messages::Refused{
          {ErrorCode::unsupported, std::string(content.begin(), content.end()), ""}, false});
      return;
    }
    if (header.kind == FrameKind::ModelPart && ++parts_ > limits::model_parts_in_flight)
      return lost(); // The parts would pile up in memory.
    if (header.kind == FrameKind::StageRows && end_ == LinkEnd::node &&
        ++pieces_ > limits::stage_pieces_in_flight)
      return lost();
    if (end_ == LinkEnd::node && !has_room(header.size))
      return refuse_more();
    const auto pass_on = [this](auto value) { tell_owner(std::move(value)); };
    if (is_for_node(header.kind) != (end_ == LinkEnd::node) ||
        !read_frame(header.kind, content, pass_on))
      lost();
  }

  /// Whether there is room for one more value that the owner has not taken.
  bool has_room(std::uint32_t bytes) {
    waiting_.push_back(bytes);
    waiting_bytes_ += bytes;
    return waiting_.size() <= limits::values_waiting_max &&
           waiting_bytes_ <= limits::waiting_bytes_max;
  }

  void refuse_more() {
    write(messages::Refused{
        {ErrorCode::overloaded,
         fmt::format("{} messages of {} bytes wait for the node, which has not come to them",
                     waiting_.size(), waiting_bytes_),
         "see that no more runs on that machine than it can do"},
        false});
    lost();
  }

  template <class Value>
  void tell_owner(Value value) {
    caf::unsafe_send_as(self_, owner_, std::move(value));
  }

  caf::scheduled_actor* self_;
  std::unique_ptr<Pipe> pipe_;
  caf::actor owner_;
  LinkEnd end_;                       ///< The end at which this link is.
  std::optional<FrameHeader> header_; ///< Header of the frame whose content comes next.
  bool introduced_ = false;           ///< Whether a first frame was what it should be.
  int parts_ = 0;                     ///< Parts of files that the owner has still to take.
  int pieces_ = 0;                    ///< Pieces of passes that the owner has still to answer.
  std::deque<std::uint32_t>
      waiting_; ///< Frame sizes of values that the owner has still to take; used at a node.
  std::size_t waiting_bytes_ = 0; ///< Sum of these sizes.
};

caf::message_handler FrameLink::handlers() {
  const auto link = shared_from_this();
  return {
      [link](const messages::OpenDraft& value) { link->write(value); },
      [link](const messages::DraftOpened& value) { link->write(value); },
      [link](const messages::Refused& value) { link->write(value); },
      [link](const messages::DraftWork& value) { link->write(value); },
      [link](const messages::Drafted& value) { link->write(value); },
      [link](const messages::Ping& value) { link->write(value); },
      [link](const messages::Pong& value) { link->write(value); },
      [link](const messages::Survey& value) { link->write(value); },
      [link](const messages::Surveyed& value) { link->write(value); },
      [link](const messages::SendModel& value) { link->write(value); },
      [link](const messages::ModelWanted& value) { link->write(value); },
      [link](const messages::ModelPart& value) { link->write(value); },
      [link](const messages::ModelTaken& value) { link->write(value); },
      [link](const messages::ModelStored& value) { link->write(value); },
      [link](const messages::OpenStage& value) { link->write(value); },
      [link](const messages::StageOpened& value) { link->write(value); },
      [link](const messages::StageRows& value) { link->write(value); },
      [link](const messages::StageDone& value) { link->write(value); },
      [link](const messages::ReadClock& value) { link->write(value); },
      [link](const messages::ClockRead& value) { link->write(value); },
      [link](const messages::NodeSpans& value) { link->write(value); },
      [link](const messages::ValueTaken&) { link->note_taken(); },
  };
}

/// The pipe of a broker's connection.
class Connection final : public Pipe {
public:
  Connection(broker* self, connection_handle handle,
             std::shared_ptr<const std::string> distrust = nullptr)
      : self_(self), handle_(handle), distrust_(std::move(distrust)) {}

  std::vector<char>& unsent() override { return self_->wr_buf(handle_); }
  void flush() override { self_->flush(handle_); }
  void await(std::size_t bytes) override {
    self_->configure_read(handle_, receive_policy::exactly(bytes));
  }
  void shut(bool both_ways) override {
    ::shutdown(int(handle_.id()), both_ways ? SHUT_RDWR : SHUT_RD);
  }
  std::string distrust() const override { return distrust_ ? *distrust_ : std::string(); }

private:
  broker* self_;
  connection_handle handle_;
  std::shared_ptr<const std::string> distrust_; ///< TLS fills it in once the reason is known.
};

caf::behavior behavior_of(const std::shared_ptr<Link>& link) {
  return caf::message_handler{
      [link](const caf::io::new_data_msg& data) { link->received(data.buf); },
      [link](const caf::io::connection_closed_msg&) { link->closed(); }}
      .or_else(link->handlers());
}

caf::behavior connected(broker* self, int socket, bool tls, const std::string& host,
                        const caf::actor& owner) {
  connection_handle connection;
  const auto distrust = std::make_shared<std::string>();
  if (tls) {
    auto scribe = connected_with_tls(self->system(), socket, {host, distrust});
    if (!scribe) {
      say_distrust(self, owner, *distrust);
      caf::anon_send_exit(owner, caf::exit_reason::remote_link_unreachable);
      self->quit();
      return {};
    }
    connection = scribe->hdl();
    self->add_scribe(std::move(scribe));
  } else {
    connection = self->add_scribe(socket);
  }
  return behavior_of(make_link(self, std::make_unique<Connection>(self, connection, distrust),
                               owner, LinkEnd::engine));
}

caf::behavior accepted(broker* self, connection_handle connection, const caf::actor& session) {
  return behavior_of(
      make_link(self, std::make_unique<Connection>(self, connection), session, LinkEnd::node));
}

/// Tells the peer why it is not served. The peer's bytes are read until it goes, or the refusal
/// might not arrive. place: one of few.
caf::behavior turned_away(broker* self, connection_handle connection,
                          const std::shared_ptr<const void>& place) {
  append_refusal(
      self->wr_buf(connection),
      fmt::format("the node drafts for {} engines already, which is all it does: end one "
                  "of them, or start another node",
                  limits::sessions_max));
  self->flush(connection);
  self->configure_read(connection, receive_policy::at_most(limits::first_frame_bytes_max));
  self->delayed_send(self, limits::hello_timeout, messages::Wake{});
  return {[place](const caf::io::new_data_msg&) {},
          [self](const caf::io::connection_closed_msg&) { self->quit(); },
          [self](const messages::Wake&) { self->quit(); }};
}

caf::behavior door(broker* self, int socket, bool tls, const std::function<caf::actor()>& welcome) {
  if (tls)
    self->add_doorman(listening_with_tls(self->system(), socket));
  else
    self->add_doorman(socket);
  const auto outside = std::make_shared<const char>(); // Each one turned away holds it.
  return {[self, welcome, outside](const caf::io::new_connection_msg& news) {
            if (const caf::actor session = welcome())
              self->fork(accepted, news.handle, session);
            else if (outside.use_count() <= limits::sessions_max)
              self->fork(turned_away, news.handle, outside);
            else
              self->close(news.handle);
          },
          [](const caf::io::connection_closed_msg&) {}};
}

} // namespace

std::shared_ptr<Link> make_link(caf::scheduled_actor* self, std::unique_ptr<Pipe> pipe,
                                caf::actor owner, LinkEnd end) {
  return std::make_shared<FrameLink>(self, std::move(pipe), std::move(owner), end);
}

caf::actor open_link(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     const std::string& host, const caf::actor& owner) {
  return system.middleman().spawn_broker(connected, socket, !tls.certificate.empty(), host, owner);
}

caf::actor open_door(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     std::function<caf::actor()> welcome) {
  return system.middleman().spawn_broker(door, socket, !tls.certificate.empty(),
                                         std::move(welcome));
}

} // namespace paceline::nodes
