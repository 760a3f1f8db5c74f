#include "nodes/sessions.hpp"

#include "nodes/session.hpp"

namespace paceline::nodes {

caf::actor NodeSessions::welcome(caf::actor_system& system) {
  const std::lock_guard lock(mutex_);
  auto place = closed_ ? nullptr : node_->take_place();
  if (!place)
    return nullptr;
  std::erase_if(sessions_,
                [](const caf::actor_addr& each) { return !caf::actor_cast<caf::actor>(each); });
  const auto session =
      caf::actor_cast<caf::actor>(messages::spawn<NodeSession>(system, node_, std::move(place)));
  sessions_.push_back(session.address());
  return session;
}

void NodeSessions::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const caf::actor_addr& session : sessions_)
    if (const auto alive = caf::actor_cast<caf::actor>(session))
      caf::anon_send_exit(alive, caf::exit_reason::user_shutdown);
}

} // namespace paceline::nodes
