#include "nodes/session.hpp"

#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "nodes/receiver.hpp"

#include <utility>

namespace paceline::nodes {

using namespace messages;

namespace {

Result<void> check(const OpenDraft& wanted) {
  return DraftService::check(wanted);
}
Result<void> check(const OpenStage& wanted) {
  return StageService::check(wanted);
}

NodeParts::Wanted weights_of(const OpenDraft& wanted) {
  return {wanted.device, wanted.model, wanted.identity};
}
NodeParts::Wanted weights_of(const OpenStage& wanted) {
  return {wanted.device, wanted.model, wanted.identity, wanted.layers};
}

} // namespace

NodeSession::NodeSession(Handle::pointer self, std::shared_ptr<NodeParts> node,
                         std::shared_ptr<const void> place)
    : self_(self), node_(std::move(node)), place_(std::move(place)), heard_(self->clock().now()),
      spans_(std::make_shared<SpanLog>(node_->clock_ahead)) {
  self_->set_default_handler(caf::drop); // A peer may send any value.
  tell_after(self_, limits::hello_timeout, self_, Wake{});
}

NodeSessionActor::behavior_type NodeSession::make_behavior() {
  return {
      [this](const Survey&) {
        hear();
        introduced_ = true;
        tell(self_, link_, node_->survey());
      },
      [this](const SendModel& what) {
        hear();
        receive(what);
      },
      [this](const ModelPart& part) {
        hear();
        take(part);
      },
      [this](const ModelReady& ready) { ready.why.message.empty() ? open() : refuse(ready.why); },
      [this](const OpenDraft& wanted) {
        hear();
        want(wanted);
      },
      [this](const OpenStage& wanted) {
        hear();
        want(wanted);
      },
      [this](const DraftWork& work) {
        const base::Handling span(*node_->telemetry, name, "work");
        hear();
        check_peer(drafts_ != nullptr, "it wants drafts of nothing");
        drafts_->take(work);
      },
      [this](const StageRows& rows) {
        const base::Handling span(*node_->telemetry, name, "rows");
        hear();
        check_peer(stage_ != nullptr, "it wants passes through nothing");
        stage_->take(rows);
        send_spans(); // These are the spans of earlier pieces.
      },
      [this](const WindowsReady&) {
        const base::Handling span(*node_->telemetry, name, "windows ready");
        drafts_->collect();
        send_spans();
      },
      [this](const Ping&) {
        hear();
        tell(self_, link_, Pong{});
      },
      [this](const ReadClock&) {
        hear();
        read_clock();
      },
      [this](const Wake&) { look_after(); },
  };
}

/// Notes that the engine is there. Its values come from the link, which may then send as much
/// again.
void NodeSession::hear() {
  heard_ = self_->clock().now();
  if (!link_)
    link_ = caf::actor_cast<LinkActor>(self_->current_sender());
  tell(self_, link_, ValueTaken{});
}

/// Ends the session of an engine that has said nothing for long: an engine sends a ping every now
/// and then.
void NodeSession::look_after() {
  if (!introduced_ || self_->clock().now() - heard_ > limits::session_patience)
    return self_->quit(caf::exit_reason::remote_link_unreachable);
  tell_after(self_, limits::session_patience / 4, self_, Wake{});
}

void NodeSession::read_clock() {
  spans_->begin();
  tell(self_, link_, ClockRead{spans_->by_its_clock(heard_)});
  send_spans();
}

void NodeSession::send_spans() {
  if (NodeSpans done = spans_->take(); !done.spans.empty() || done.dropped > 0)
    tell(self_, link_, std::move(done));
}

void NodeSession::refuse(const Error& why, bool takes_files) {
  tell(self_, link_, Refused{why, takes_files});
}

// ---- what the engine uses the node for ----

void NodeSession::want(Wanted what) {
  introduced_ = true;
  check_peer(!wanted_, "it opens twice");
  wanted_ = std::move(what);
  open();
}

void NodeSession::open() {
  const auto possible = std::visit([](const auto& wanted) { return check(wanted); }, *wanted_);
  if (!possible)
    return refuse(possible.error());
  const auto weights = std::visit([](const auto& wanted) { return weights_of(wanted); }, *wanted_);
  const NodeParts::Found found = node_->find(weights);
  if (found.offer)
    return std::visit([&](const auto& wanted) { serve(wanted, found.offer); }, *wanted_);
  if (!found.kept)
    return refuse(found.why, found.takes_files);
  load(weights);
}

/// Loads on a thread of its own; when loading has ended, the session looks again at what there is.
/// The session may end before, and the load keeps its place, one of few, until it has ended.
void NodeSession::load(const NodeParts::Wanted& weights) {
  auto load_place = node_->take_load_place(weights);
  if (!load_place)
    return refuse(load_place.error());
  const auto load = [node = node_, place = place_, load_place = *load_place,
                     weights](caf::event_based_actor* loader, const caf::actor& session) mutable {
    const auto loaded = node->load_kept(weights, std::move(load_place));
    loader->send(session, ModelReady{loaded ? Error() : loaded.error()});
    loader->quit();
  };
  self_->system().spawn<caf::detached>(load, caf::actor_cast<caf::actor>(self_));
}

void NodeSession::serve(const OpenDraft& wanted, const NodeParts::OfferRef& offer) {
  if (wanted.only_asks)
    return tell(self_, link_, DraftOpened{offer->info});
  auto opened = DraftService::open(self_, node_, wanted, offer, link_, spans_);
  if (!opened)
    return refuse(opened.error());
  drafts_ = std::move(*opened);
}

void NodeSession::serve(const OpenStage& wanted, const NodeParts::OfferRef& offer) {
  const StageOpened opened = StageService::describe(*node_, *offer, wanted);
  if (wanted.only_asks)
    return tell(self_, link_, opened);
  // The lane calls this: the result of a piece goes straight to the connection.
  const auto done = [link = link_, me = self_->address()](Result<StageDone> rows) {
    if (rows)
      return tell(link, std::move(*rows));
    fail(me);
  };
  auto stage = StageService::open(*node_, offer, wanted, done, spans_);
  if (!stage)
    return refuse(stage.error());
  stage_ = std::move(*stage);
  tell(self_, link_, opened);
}

// ---- files ----

void NodeSession::receive(const SendModel& what) {
  introduced_ = true;
  check_peer(!receiver_, "it sends two models");
  if (!node_->cache)
    return refuse({ErrorCode::unsupported, "the node takes no models that others send",
                   "start it with --accept-models"});
  receiver_ = spawn<Receiver, caf::detached>(*self_, node_->cache, what, link_);
  self_->link_to(receiver_);
}

void NodeSession::take(const ModelPart& part) {
  check_peer(receiver_ != nullptr, "it sends files that nobody has asked for");
  tell(self_, receiver_, part);
}

} // namespace paceline::nodes
