#include "nodes/draft_service.hpp"

#include "actors/draft_model.hpp"
#include "actors/limits.hpp"
#include "execution/draft_step.hpp"
#include "models/limits.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "sampling/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::nodes {

using namespace messages;
using speculation::Frontiers;

namespace {

/// Returns how many numbers of q the news have.
std::size_t numbers_in(const DraftedTokens& news) {
  std::size_t numbers = 0;
  for (const auto& row : news.q)
    numbers += row.size();
  for (const DraftedFork& fork : news.forks)
    for (const auto& row : fork.q)
      numbers += row.size();
  return numbers;
}

/// Returns a function that tells the session that windows are there, with one message at a time.
std::function<void()> telling(DraftService::Session session,
                              std::shared_ptr<std::atomic<bool>> told) {
  return [told = std::move(told), me = caf::actor_cast<caf::actor_addr>(session)] {
    if (!told->exchange(true))
      if (const auto alive = caf::actor_cast<caf::actor>(me))
        messages::tell(alive, WindowsReady{});
  };
}

} // namespace

Result<void> DraftService::check(const OpenDraft& wanted) {
  if (wanted.vocabulary < 1 || wanted.max_num_seqs < 1 || wanted.max_model_len < 1 ||
      wanted.max_num_seqs > actors::limits::max_num_seqs_max || wanted.fork_rows < 0 ||
      wanted.fork_rows > speculation::limits::fork_rows_max ||
      wanted.max_model_len > models::limits::context_max ||
      wanted.vocabulary > models::limits::context_max)
    return fail(ErrorCode::invalid_argument, "the engine asks for a draft that cannot be");
  if (std::int64_t(wanted.max_model_len) * wanted.max_num_seqs > limits::session_tokens_max)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a node drafts for {} tokens at a time, and {} sequences of {} are more",
                    limits::session_tokens_max, wanted.max_num_seqs, wanted.max_model_len),
        "lower EngineOptions::max_num_seqs or EngineOptions::max_model_len");
  return {};
}

DraftService::DraftService(Session session, NodeParts::OfferRef offer, LinkActor link)
    : session_(session), offer_(std::move(offer)), link_(std::move(link)) {}

DraftService::~DraftService() {
  sequences_.clear();
  if (draft_)
    caf::anon_send_exit(draft_, caf::exit_reason::user_shutdown);
}

Result<std::unique_ptr<DraftService>>
DraftService::open(Session session, const std::shared_ptr<NodeParts>& node, const OpenDraft& wanted,
                   NodeParts::OfferRef offer, LinkActor link, std::shared_ptr<SpanLog> spans) {
  std::unique_ptr<DraftService> service(
      new DraftService(session, std::move(offer), std::move(link)));
  return service->start(*node, wanted, std::move(spans)).map([&] { return std::move(service); });
}

Result<void> DraftService::start(const NodeParts& node, const OpenDraft& wanted,
                                 std::shared_ptr<SpanLog> spans) {
  const actors::LoadedModel& model = offer_->model;
  const int context = std::min(wanted.max_model_len, offer_->info.max_model_len);
  const gpu::KvShape shape = model.model->kv_shape(node.page_tokens);
  if (shape.state_bytes > 0)
    return fail(ErrorCode::unsupported,
                model.model->info().name + " has recurrent layers, and no node drafts with such",
                "give EngineOptions::draft_devices a device of this machine");
  const std::size_t page = shape.bytes();
  const std::size_t useful =
      std::size_t(wanted.max_num_seqs) *
          (std::size_t(context) / std::size_t(node.page_tokens) + 1) +
      std::size_t(wanted.fork_rows) * std::size_t(speculation::limits::pages_per_fork_row);
  auto pool = model.make_pool(node.page_tokens,
                              std::clamp<std::size_t>(node.kv_memory_bytes / page, 1, useful));
  if (!pool)
    return tl::unexpected(pool.error());
  sequences_max_ = std::size_t(limits::sequences_per_seat) * std::size_t(wanted.max_num_seqs);
  common_ = std::make_shared<const ServedSequence::Common>(
      ServedSequence::Common{wanted.vocabulary, wanted.max_model_len, context, node.page_tokens,
                             std::move(*pool), telling(session_, told_)});
  spawn_draft(node, wanted, std::move(spans));
  ask(session_, draft_, limits::hello_timeout, Borrow{})
      .then(
          [this](const Lent& lent) {
            inbox_ = lent.inbox;
            tell(session_, link_, DraftOpened{offer_->info});
          },
          [this](const caf::error&) { session_->quit(caf::exit_reason::remote_link_unreachable); });
  return {};
}

void DraftService::spawn_draft(const NodeParts& node, const OpenDraft& wanted,
                               std::shared_ptr<SpanLog> spans) {
  const actors::LoadedModel& model = offer_->model;
  const auto window = std::size_t(sampling::limits::window_max) + 1;
  const execution::DraftStep::Parts drafting{
      .model = model.model,
      .device = model.device,
      .pool = common_->pool,
      .vocabulary = wanted.vocabulary,
      .max_num_seqs = int(sequences_max_),
      .fork_rows = wanted.fork_rows,
      .telemetry = node.telemetry,
      .q_rows = (std::size_t(wanted.max_num_seqs) * speculation::limits::windows_held +
                 std::size_t(wanted.fork_rows)) *
                window};
  actors::DraftModelParts parts;
  parts.device = model.device;
  parts.make_step = [drafting,
                     spans = std::move(spans)](std::shared_ptr<execution::DraftQueue> queue,
                                               std::shared_ptr<gpu::Device> reader) {
    auto all = drafting;
    all.reader = std::move(reader);
    return logged(spans, "draft " + all.device->name(),
                  std::make_shared<execution::DraftStep>(all, std::move(queue)));
  };
  parts.closer = node.closer;
  parts.telemetry = node.telemetry;
  draft_ = spawn<actors::DraftModel>(*session_, parts, node.host);
  session_->link_to(draft_); // The session exists for this lane only.
}

// ---- the engine's messages ----

void DraftService::take(const DraftWork& work) {
  check_peer(inbox_ != nullptr, "it wants drafts of nothing");
  check_peer(work.sequences.size() <= sequences_max_, "it names more sequences than it said");
  for (const auto id : work.over)
    sequences_.erase(id);
  Frontiers frontiers;
  for (const DraftFrom& from : work.sequences)
    frontiers.sequences.push_back((from.begins ? begin(from) : begun(from)).take(from));
  if (!frontiers.sequences.empty())
    inbox_->post(frontiers);
  else if (!work.over.empty())
    tell(session_, draft_, scheduling::Forget{});
}

/// Begins a sequence. The state of an earlier one with this name is dropped.
ServedSequence& DraftService::begin(const DraftFrom& from) {
  sequences_.erase(from.sequence);
  check_peer(sequences_.size() < sequences_max_, "it has more sequences than it said");
  return sequences_.try_emplace(from.sequence, common_, from).first->second;
}

ServedSequence& DraftService::begun(const DraftFrom& from) {
  const auto found = sequences_.find(from.sequence);
  check_peer(found != sequences_.end(), "a sequence goes on that never began");
  return found->second;
}

// ---- the engine's news ----

void DraftService::collect() {
  told_->store(false);
  Drafted news;
  std::size_t numbers = 0;
  const auto send = [&] {
    if (!news.chains.empty())
      tell(session_, link_, std::exchange(news, {}));
    numbers = 0;
  };
  for (auto& [id, sequence] : sequences_) {
    DraftedTokens of;
    if (!sequence.add_news(of))
      continue;
    news.step = sequence.step();
    numbers += numbers_in(of);
    news.chains.push_back(std::move(of));
    if (numbers > limits::frame_numbers_max)
      send();
  }
  send();
}

} // namespace paceline::nodes
