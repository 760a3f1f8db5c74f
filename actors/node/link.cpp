// The broker at one end of a connection: values to frames, frames to values.
#include "actors/limits.hpp"
#include "actors/node/frames.hpp"
#include "actors/node/network.hpp"
#include "actors/node/tls.hpp"

#include <caf/io/broker.hpp>
#include <caf/io/middleman.hpp>
#include <fmt/format.h>

#include <memory>
#include <sys/socket.h>

namespace paceline::actors {
namespace {

using caf::io::broker;
using caf::io::connection_handle;
using caf::io::receive_policy;

/// Whether TLS has found a peer wanting.
void say_distrust(broker* self, const caf::actor& owner, const std::string& distrust) {
  if (!distrust.empty())
    self->send(owner, messages::DraftRefused{{ErrorCode::unavailable, distrust,
                                              "see docs/machines.md about certificates and their "
                                              "hosts"},
                                             false});
}

class Link {
public:
  enum class End { engine, node };
  /// distrust: why TLS trusts the peer not, once it does not; null: it is not asked.
  Link(broker* self, connection_handle connection, caf::actor owner, End end,
       std::shared_ptr<const std::string> distrust = nullptr)
      : self_(self), connection_(connection), owner_(std::move(owner)), end_(end),
        distrust_(std::move(distrust)) {
    self_->link_to(owner_);
    self_->set_exit_handler([this](const caf::exit_msg&) { lost(); });
    self_->configure_read(connection_, receive_policy::exactly(frame_header_bytes));
  }

  void received(const std::vector<char>& bytes) {
    if (header_)
      take(std::exchange(header_, std::nullopt).value(), bytes);
    else
      begin(read_header(bytes));
  }
  /// The peer has closed the connection, or shows no certificate that is trusted.
  void closed() {
    if (distrust_)
      say_distrust(self_, owner_, *distrust_);
    self_->quit(caf::exit_reason::remote_link_unreachable);
  }
  /// So has this end. It does not wait for the peer to do the same, which may stand still; a node
  /// still writes what it has refused.
  void lost() {
    ::shutdown(int(connection_.id()), end_ == End::node ? SHUT_RD : SHUT_RDWR);
    closed();
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
    auto& unsent = self_->wr_buf(connection_);
    append_frame(unsent, value);
    if (unsent.size() > limits::unsent_bytes_max)
      return lost();
    self_->flush(connection_);
  }

private:
  /// A header: of a frame of this protocol, or of what its peer says in any.
  void begin(const std::optional<FrameHeader>& header) {
    if (!header || header->size > most())
      return lost();
    if (header->kind != FrameKind::refusal && header->protocol != node_protocol)
      return refuse_protocol(header->protocol);
    if (header->size == 0)
      return take(*header, {});
    header_ = header;
    self_->configure_read(connection_, receive_policy::exactly(header->size));
  }

  std::uint32_t most() const {
    if (!introduced_)
      return limits::first_frame_bytes_max;
    return end_ == End::node ? limits::guest_frame_bytes_max : limits::engine_frame_bytes_max;
  }

  /// It says who it is, or what it wants.
  bool introduces(FrameKind kind) const {
    return end_ == End::engine || kind == FrameKind::OpenDraft || kind == FrameKind::OpenStage ||
           kind == FrameKind::Survey;
  }

  void refuse_protocol(int theirs) {
    append_refusal(self_->wr_buf(connection_),
                   fmt::format("one end speaks protocol {} of nodes and the other {}: install the "
                               "same version of paceline on both machines",
                               node_protocol, theirs));
    self_->flush(connection_);
    lost();
  }

  void take(const FrameHeader& header, std::span<const char> content) {
    self_->configure_read(connection_, receive_policy::exactly(frame_header_bytes));
    introduced_ |= introduces(header.kind);
    if (header.kind == FrameKind::refusal) {
      self_->send(owner_, messages::DraftRefused{{ErrorCode::unsupported,
                                                  std::string(content.begin(), content.end()), ""},
                                                 false});
      return;
    }
    if (header.kind == FrameKind::ModelPart && ++parts_ > limits::model_parts_in_flight)
      return lost(); // they would pile up in memory
    if (header.kind == FrameKind::StageRows && end_ == End::node &&
        ++pieces_ > limits::stage_pieces_in_flight)
      return lost();
    const auto pass_on = [this](auto value) { self_->send(owner_, std::move(value)); };
    if (is_for_node(header.kind) != (end_ == End::node) ||
        !read_frame(header.kind, content, pass_on))
      lost();
  }

  broker* self_;
  connection_handle connection_;
  caf::actor owner_;
  End end_;                           ///< At which this one is.
  std::optional<FrameHeader> header_; ///< Of the frame whose content comes next.
  bool introduced_ = false;           ///< A first frame was what it should be.
  int parts_ = 0;                     ///< Of files: that the owner has still to take.
  int pieces_ = 0;                    ///< Of passes: that the owner has still to answer.
  std::shared_ptr<const std::string> distrust_;
};

caf::behavior behavior_of(const std::shared_ptr<Link>& link) {
  return {
      [link](const caf::io::new_data_msg& data) { link->received(data.buf); },
      [link](const caf::io::connection_closed_msg&) { link->closed(); },
      [link](const messages::OpenDraft& value) { link->write(value); },
      [link](const messages::DraftOpened& value) { link->write(value); },
      [link](const messages::DraftRefused& value) { link->write(value); },
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
  };
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
  return behavior_of(std::make_shared<Link>(self, connection, owner, Link::End::engine, distrust));
}

caf::behavior accepted(broker* self, connection_handle connection, const caf::actor& guest) {
  return behavior_of(std::make_shared<Link>(self, connection, guest, Link::End::node));
}

/// Says why it is not served. What it says is read until it goes, or else the refusal may not
/// arrive. place: one of few.
caf::behavior turned_away(broker* self, connection_handle connection,
                          const std::shared_ptr<const void>& place) {
  append_refusal(
      self->wr_buf(connection),
      fmt::format("the node drafts for {} engines already, which is all it does: end one "
                  "of them, or start another node",
                  limits::guests_max));
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
  const auto outside = std::make_shared<const char>(); // as many hold it as are being turned away
  return {[self, welcome, outside](const caf::io::new_connection_msg& news) {
            if (const caf::actor guest = welcome())
              self->fork(accepted, news.handle, guest);
            else if (outside.use_count() <= limits::guests_max)
              self->fork(turned_away, news.handle, outside);
            else
              self->close(news.handle);
          },
          [](const caf::io::connection_closed_msg&) {}};
}

} // namespace

caf::actor open_link(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     const std::string& host, const caf::actor& owner) {
  return system.middleman().spawn_broker(connected, socket, !tls.certificate.empty(), host, owner);
}

caf::actor open_door(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     std::function<caf::actor()> welcome) {
  return system.middleman().spawn_broker(door, socket, !tls.certificate.empty(),
                                         std::move(welcome));
}

} // namespace paceline::actors
