#include "nodes/guest.hpp"

#include "nodes/peer.hpp"

#include <utility>

namespace paceline::nodes {

using namespace messages;

Guest::Guest(Handle::pointer self, std::shared_ptr<NodeParts> node,
             std::shared_ptr<const void> place)
    : self_(self), node_(std::move(node)), place_(std::move(place)), heard_(self->clock().now()),
      spans_(std::make_shared<SpanLog>(node_->clock_ahead)) {
  self_->set_default_handler(caf::drop); // a peer may send any value
  tell_after(self_, limits::hello_timeout, self_, Wake{});
}

Guest::~Guest() {
  sequences_.clear();
  if (draft_)
    caf::anon_send_exit(draft_, caf::exit_reason::user_shutdown);
}

GuestActor::behavior_type Guest::make_behavior() {
  return {
      [this](const Survey&) {
        meet();
        tell(self_, link_, node_->survey());
      },
      [this](const SendModel& what) { receive(what); },
      [this](const ModelPart& part) {
        check_peer(receiver_ != nullptr, "it sends files that nobody has asked for");
        heard_ = self_->clock().now();
        tell(self_, receiver_, part);
      },
      [this](const ModelReady& ready) {
        ready.why.message.empty() ? open() : refuse(ready.why, false);
      },
      [this](const OpenDraft& wanted) {
        meet();
        check_peer(!std::exchange(asked_, true), "it opens twice");
        wanted_ = wanted;
        open();
      },
      [this](const OpenStage& wanted) {
        meet();
        check_peer(!std::exchange(asked_, true), "it opens twice");
        stage_wanted_ = wanted;
        open();
      },
      [this](const StageRows& rows) {
        const base::Handling span(*node_->telemetry, name, "rows");
        check_peer(stage_ != nullptr, "it wants passes through nothing");
        stage_->take(rows);
        send_spans(); // of those before
      },
      [this](const DraftWork& work) {
        const base::Handling span(*node_->telemetry, name, "work");
        take(work);
      },
      [this](const WindowsReady&) {
        const base::Handling span(*node_->telemetry, name, "windows ready");
        collect();
      },
      [this](const Ping&) {
        heard_ = self_->clock().now();
        if (link_)
          tell(self_, link_, Pong{});
      },
      [this](const ReadClock&) {
        if (!link_)
          return;
        heard_ = self_->clock().now();
        spans_->begin();
        tell(self_, link_, ClockRead{spans_->by_its_clock(heard_)});
        send_spans();
      },
      [this](const Wake&) { look_after(); },
  };
}

/// An engine asks every now and then; one that has nothing to say for long is not there any more.
void Guest::look_after() {
  if (!link_ || self_->clock().now() - heard_ > limits::guest_patience)
    return self_->quit(caf::exit_reason::remote_link_unreachable);
  tell_after(self_, limits::guest_patience / 4, self_, Wake{});
}

void Guest::send_spans() {
  if (NodeSpans done = spans_->take(); !done.spans.empty() || done.dropped > 0)
    tell(self_, link_, std::move(done));
}

} // namespace paceline::nodes
