#include "nodes/node_connection.hpp"

namespace paceline::nodes {

using namespace messages;

namespace {

constexpr const char* was_lost = "the connection was lost";

} // namespace

NodeConnection::NodeConnection(caf::scheduled_actor* self, std::chrono::milliseconds heartbeat,
                               std::shared_ptr<base::Trace> trace, GiveUp given_up)
    : self_(self), heartbeat_(heartbeat), trace_(std::move(trace)), given_up_(std::move(given_up)),
      traced_(trace_, {}) {
  self_->set_default_handler(caf::drop); // A node may send any value.
  self_->set_exit_handler([this](const caf::exit_msg& ended) {
    if (ended.reason != caf::exit_reason::remote_link_unreachable)
      return self_->quit(ended.reason);
    ended_ = ended.source;
    // This comes behind the values that the link told before. An end without a source is of a
    // connection that never became a link.
    if (!ended.source || (link_ && ended.source == link_.address()))
      caf::unsafe_send_as(self_, caf::actor_cast<caf::actor>(self_),
                          Connected{nullptr, {ErrorCode::unavailable, was_lost, ""}});
  });
}

void NodeConnection::dial(const NodePlace& place) {
  place.connect(self_->system(), caf::actor_cast<caf::actor>(self_));
}

std::optional<std::string> NodeConnection::take(const Connected& how, const NodePlace& place) {
  if (!how.link)
    return how.why.message;
  if (how.link.address() == ended_)
    return was_lost;
  use(how.link, place.name);
  return std::nullopt;
}

void NodeConnection::use(const caf::actor& link, std::string name) {
  link_ = caf::actor_cast<LinkActor>(link);
  traced_ = NodeTrace(trace_, std::move(name));
  hear();
}

void NodeConnection::opened() {
  open_ = true;
  hear();
  read_clock(); // The wire is idle now, so the answer comes undelayed.
}

bool NodeConnection::drop() {
  open_ = false;
  const LinkActor link = std::exchange(link_, nullptr);
  if (link)
    caf::anon_send_exit(link, caf::exit_reason::user_shutdown);
  return link != nullptr;
}

/// Whether the node has not answered. Asking each quarter of a heartbeat finds that within a
/// heartbeat.
bool NodeConnection::is_silent(base::Duration grace) const {
  return now() - heard_ > heartbeat_ * 3 / 4 + grace;
}

bool NodeConnection::answers(base::Duration grace) {
  if (!link_)
    return false;
  if (!is_silent(grace))
    return true;
  given_up_("it does not answer");
  return false;
}

void NodeConnection::ask() {
  say(Ping{});
  read_clock();
}

void NodeConnection::read_clock() {
  if (traced_.asks(now()))
    say(ReadClock{});
}

void NodeConnection::take(const ClockRead& answer) {
  if (!is_sender())
    return;
  hear();
  believe([&] { traced_.take(answer, heard_); });
}

void NodeConnection::take(const NodeSpans& news) {
  believe([&] { traced_.take(news, now()); });
}

} // namespace paceline::nodes
