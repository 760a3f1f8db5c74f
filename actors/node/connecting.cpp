// How an engine finds a node: the parts of RemoteDraft that wait.
#include "actors/limits.hpp"
#include "actors/node/remote_draft.hpp"
#include "actors/system/runtime.hpp"

#include <future>

namespace paceline::actors {

using namespace messages;

namespace {

/// Gives what the node answers, and ends.
caf::behavior asker(caf::event_based_actor* self, SocketDescriptor socket, const NodeTls& tls,
                    const OpenDraft& hello,
                    const std::shared_ptr<std::promise<Result<ModelInfo>>>& answer) {
  const caf::actor link = open_link(self->system(), socket, tls, self);
  self->send(link, hello);
  const auto end = [self, answer](Result<ModelInfo> with) {
    answer->set_value(std::move(with));
    self->quit(caf::exit_reason::user_shutdown);
  };
  return {[end](const DraftOpened& opened) { end(opened.info); },
          [end](const DraftRefused& refused) { end(tl::unexpected(refused.why)); },
          [self](Wake) { self->quit(caf::exit_reason::user_shutdown); }};
}

} // namespace

RemoteDraftParts remote_draft_parts(const NodeAddress& address, const NodeTls& tls) {
  RemoteDraftParts parts;
  parts.name =
      "node://" + address.endpoint.text() + (address.device.empty() ? "" : "/" + address.device);
  parts.connect = [address, tls](caf::actor_system& system, const caf::actor& self) {
    system.spawn<caf::detached>([address, tls, self](caf::event_based_actor* dialler) {
      const auto socket = dial(address.endpoint, tls, limits::connect_timeout);
      Connected connected;
      if (socket)
        connected.link = open_link(dialler->system(), *socket, tls, self);
      else
        connected.why = socket.error();
      dialler->send(self, std::move(connected));
      dialler->quit();
    });
  };
  return parts;
}

Result<ModelInfo> ask_node(caf::actor_system& system, const NodeAddress& address,
                           const NodeTls& tls, OpenDraft hello) {
  const auto socket = dial(address.endpoint, tls, limits::connect_timeout);
  if (!socket)
    return tl::unexpected(socket.error());
  hello.only_asks = true;
  auto promise = std::make_shared<std::promise<Result<ModelInfo>>>();
  auto answer = promise->get_future();
  caf::actor asking;
  apart_from_caller([&] {
    asking = system.spawn(asker, *socket, tls, hello, promise);
    promise = nullptr; // the actor's alone: it breaks when that ends
  });
  const bool there = answer.wait_for(limits::connect_timeout) == std::future_status::ready;
  apart_from_caller([&] { caf::anon_send(std::exchange(asking, nullptr), Wake{}); });
  const auto silent = [&](const char* what) {
    return fail(ErrorCode::unavailable, address.endpoint.text() + what,
                "see that paceline node runs there, and that certificates are given at both ends "
                "or at none");
  };
  if (!there)
    return silent(" does not answer");
  try {
    return answer.get();
  } catch (const std::future_error&) {
    return silent(" closed the connection");
  }
}

} // namespace paceline::actors
