// How a guest comes to what it drafts with, or has layers of.
#include "execution/draft_step.hpp"
#include "models/limits.hpp"
#include "nodes/guest.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "nodes/receiver.hpp"
#include "sampling/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::nodes {

using namespace messages;

namespace {

/// An engine says so, whoever that is.
Result<void> check(const OpenDraft& wanted) {
  if (wanted.vocabulary < 1 || wanted.max_num_seqs < 1 || wanted.max_model_len < 1 ||
      wanted.max_num_seqs > limits::max_num_seqs_max || wanted.fork_rows < 0 ||
      wanted.fork_rows > speculation::limits::fork_rows_max ||
      wanted.max_model_len > models::limits::context_max ||
      wanted.vocabulary > models::limits::context_max)
    return fail(ErrorCode::invalid_argument, "the engine asks for a draft that cannot be");
  if (std::int64_t(wanted.max_model_len) * wanted.max_num_seqs > limits::guest_tokens_max)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a node drafts for {} tokens at a time, and {} sequences of {} are more",
                    limits::guest_tokens_max, wanted.max_num_seqs, wanted.max_model_len),
        "lower EngineOptions::max_num_seqs or EngineOptions::max_model_len");
  return {};
}

Result<void> check(const OpenStage& wanted) {
  if (wanted.page_tokens < 1 || wanted.page_tokens > limits::page_tokens_max)
    return fail(ErrorCode::invalid_argument, "the engine asks for pages that cannot be");
  if (wanted.rows != NumberFormat::f32 && wanted.rows != NumberFormat::bf16)
    return fail(ErrorCode::invalid_argument, "the engine sends rows in no format that there is");
  return {};
}

} // namespace

NodeParts::Wanted Guest::wanted_weights() const {
  if (stage_wanted_)
    return {stage_wanted_->device, stage_wanted_->model, stage_wanted_->identity,
            stage_wanted_->layers};
  return {wanted_.device, wanted_.model, wanted_.identity};
}

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

/// What the engine has asked for; loaded first where only its files are here, on a thread of its
/// own.
void Guest::open() {
  const auto possible = stage_wanted_ ? check(*stage_wanted_) : check(wanted_);
  if (!possible)
    return refuse(possible.error(), false);
  const NodeParts::Found found = node_->find(wanted_weights());
  if (found.offer)
    return serve(found.offer);
  if (!found.kept)
    return refuse(found.why, found.takes_files);
  const auto load = [node = node_, wanted = wanted_weights()](caf::event_based_actor* loader,
                                                              const caf::actor& guest) {
    const auto loaded = node->load_kept(wanted);
    loader->send(guest, ModelReady{loaded ? Error() : loaded.error()});
    loader->quit();
  };
  self_->system().spawn<caf::detached>(load, caf::actor_cast<caf::actor>(self_));
}

void Guest::serve(const NodeParts::OfferRef& offer) {
  if (stage_wanted_)
    return serve_stage(offer);
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

void Guest::serve_stage(const NodeParts::OfferRef& offer) {
  const OpenStage& wanted = *stage_wanted_;
  const StageOpened opened = GuestStage::describe(*node_, *offer, wanted);
  if (wanted.only_asks)
    return tell(self_, link_, opened);
  // From the lane: what a piece has become goes straight to the connection.
  const auto done = [link = link_, me = self_->address()](Result<StageDone> rows) {
    if (rows)
      return tell(link, std::move(*rows));
    fail(me);
  };
  auto stage = GuestStage::open(*node_, offer, wanted, done, spans_);
  if (!stage)
    return refuse(stage.error(), false);
  stage_ = std::move(*stage);
  tell(self_, link_, opened);
}

Result<void> Guest::start(const NodeParts::Offer& offer) {
  const OpenDraft& wanted = wanted_;
  const actors::LoadedModel& model = offer.model;
  context_ = std::min(wanted.max_model_len, offer.info.max_model_len);
  const std::size_t page = model.model->kv_shape(node_->page_tokens).bytes();
  const auto fork_rows = std::size_t(wanted.fork_rows);
  const std::size_t useful = std::size_t(wanted.max_num_seqs) *
                                 (std::size_t(context_) / std::size_t(node_->page_tokens) + 1) +
                             fork_rows * std::size_t(speculation::limits::pages_per_fork_row);
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
      .fork_rows = wanted.fork_rows,
      .telemetry = node_->telemetry,
      .q_rows = (std::size_t(wanted.max_num_seqs) * speculation::limits::windows_held + fork_rows) *
                window};
  actors::DraftModelParts parts;
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
  draft_ = spawn<actors::DraftModel>(*self_, parts, node_->host);
  self_->link_to(draft_); // its lane is all that a guest is for
  return {};
}

} // namespace paceline::nodes
