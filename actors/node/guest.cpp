#include "actors/node/guest.hpp"

#include "actors/node/peer.hpp"
#include "actors/node/receiver.hpp"
#include "execution/draft_step.hpp"
#include "sampling/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {

using namespace messages;

Guest::Guest(Handle::pointer self, std::shared_ptr<NodeParts> node,
             std::shared_ptr<const void> place)
    : self_(self), node_(std::move(node)), place_(std::move(place)), heard_(self->clock().now()),
      spans_(std::make_shared<SpanLog>(node_->clock_ahead)) {
  self_->set_default_handler(caf::drop); // a peer may send any value
  tell_after(self_, limits::hello_timeout, self_, Wake{});
}

Guest::~Guest() {
  for (auto& [id, s] : sequences_)
    s.residency->over.store(true, std::memory_order_release);
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

// ---- opening ----

/// Whatever comes, comes from the link.
void Guest::meet() {
  heard_ = self_->clock().now();
  if (!link_)
    link_ = caf::actor_cast<LinkActor>(self_->current_sender());
}

void Guest::refuse(const Error& why, bool takes_files) {
  tell(self_, link_, DraftRefused{why, takes_files});
}

void Guest::receive(const SendModel& what) {
  meet();
  check_peer(!receiver_, "it sends two models");
  if (!node_->cache)
    return refuse({ErrorCode::unsupported, "the node takes no models that others send",
                   "start it with --accept-models"},
                  false);
  receiver_ = spawn<Receiver, caf::detached>(*self_, node_->cache, what, link_);
  self_->link_to(receiver_);
}

/// What the engine has asked for; loaded from the cache first, on a thread of its own.
void Guest::open() {
  const NodeParts::Found found = node_->find(wanted_);
  if (found.offer)
    return serve(found.offer);
  if (!found.kept)
    return refuse(found.why, found.takes_files);
  const auto load = [node = node_, wanted = wanted_](caf::event_based_actor* loader,
                                                     const caf::actor& guest) {
    const auto loaded = node->load_kept(wanted);
    loader->send(guest, ModelReady{loaded ? Error() : loaded.error()});
    loader->quit();
  };
  self_->system().spawn<caf::detached>(load, caf::actor_cast<caf::actor>(self_));
}

void Guest::serve(const NodeParts::OfferRef& offer) {
  if (wanted_.only_asks)
    return tell(self_, link_, DraftOpened{offer->info});
  if (auto started = start(*offer); !started)
    return refuse(started.error(), false);
  offer_ = offer;
  ask(self_, draft_, limits::hello_timeout, Borrow{})
      .then(
          [this](const Lent& lent) {
            inbox_ = lent.inbox;
            tell(self_, link_, DraftOpened{offer_->info});
          },
          [this](const caf::error&) { self_->quit(caf::exit_reason::remote_link_unreachable); });
}

Result<void> Guest::start(const NodeParts::Offer& offer) {
  const OpenDraft& wanted = wanted_;
  const LoadedModel& model = offer.model;
  context_ = std::min(wanted.max_model_len, offer.info.max_model_len);
  const std::size_t page = model.model->kv_shape(node_->page_tokens).bytes();
  const std::size_t useful = std::size_t(wanted.max_num_seqs) *
                             (std::size_t(context_) / std::size_t(node_->page_tokens) + 1);
  auto pool = model.make_pool(node_->page_tokens,
                              std::clamp<std::size_t>(node_->kv_memory_bytes / page, 1, useful));
  if (!pool)
    return tl::unexpected(pool.error());
  pool_ = *pool;
  const auto window = std::size_t(sampling::limits::window_max) + 1;
  const execution::DraftStep::Parts drafting{
      .model = model.model,
      .device = model.device,
      .pool = pool_,
      .vocabulary = wanted.vocabulary,
      .max_num_seqs = limits::guest_sequences_per_seat * wanted.max_num_seqs,
      .telemetry = node_->telemetry,
      .q_rows = std::size_t(wanted.max_num_seqs) * speculation::limits::windows_held * window};
  DraftModelParts parts;
  parts.device = model.device;
  parts.make_step = [drafting, spans = spans_](std::shared_ptr<execution::DraftQueue> queue,
                                               std::shared_ptr<gpu::Device> reader) {
    auto all = drafting;
    all.reader = std::move(reader);
    return logged(spans, "draft " + all.device->name(),
                  std::make_shared<execution::DraftStep>(all, std::move(queue)));
  };
  parts.closer = node_->closer;
  parts.telemetry = node_->telemetry;
  draft_ = spawn<DraftModel>(*self_, parts, node_->host);
  self_->link_to(draft_); // its lane is all that a guest is for
  return {};
}

} // namespace paceline::actors
