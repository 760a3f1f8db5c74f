#include "nodes/stage_service.hpp"

#include "actors/limits.hpp"
#include "execution/stage.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "nodes/stage_pieces.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>
#include <utility>

namespace paceline::nodes {

using namespace messages;

namespace {

/// A piece of a pass over the stage's layers.
class LayersStep final : public gpu::Step {
public:
  struct Parts {
    std::shared_ptr<const models::Model> model;
    std::shared_ptr<gpu::KvPool> pool;
    std::shared_ptr<models::Workspace> workspace; ///< The lane's; one step at a time uses it.
    speculation::QRow in;
    speculation::QRow out;
    NumberFormat format; ///< Format in which rows cross.
    StageService::Done done;
  };
  LayersStep(Parts parts, const StageRows& rows)
      : parts_(std::move(parts)), piece_(rows.piece), sequences_(rows.sequences),
        copies_(rows.copies) {
    int count = 0;
    for (const StageSequence& sequence : sequences_) {
      count += sequence.rows;
      wanted_ += sequence.rows - sequence.logits_from;
      longest_ = std::max(longest_, sequence.rows);
    }
    received_ = rows_of(parts_.in, count);
    left_ = rows_of(parts_.out, parts_.model->leaves_wanted() ? wanted_ : count);
    from_bytes(rows.values, received_, parts_.format);
  }

  std::string name() const override { return "layers"; }
  Next prepare(base::TimePoint /*now*/) override {
    if (std::exchange(ran_, true))
      return Next::done;
    const std::vector<TokenId> unread(std::size_t(longest_), 0);
    std::vector<models::SequenceRows> batch;
    for (const StageSequence& sequence : sequences_)
      batch.push_back({sequence.pages, sequence.start,
                       std::span(unread).first(std::size_t(sequence.rows)), sequence.logits_from});
    parts_.workspace->received = received_;
    parts_.workspace->left = left_;
    parts_.model->plan(batch, *parts_.pool, *parts_.workspace);
    return Next::ready;
  }
  gpu::Work work() const override {
    gpu::Work work{gpu::Work::Kind::decode, received_.rows, int(sequences_.size()), 0};
    for (const StageSequence& sequence : sequences_) {
      work.context = std::max(work.context, sequence.start + sequence.rows);
      work.decode_reads += sequence.start + sequence.rows;
    }
    return work;
  }
  bool in_shards() const override { return true; }
  void run(gpu::Operations& operations) override {
    execution::copy_pages(operations, *parts_.pool, copies_);
    parts_.model->forward(operations, *parts_.workspace);
  }
  void complete(base::TimePoint /*now*/) override {}
  void retire(const gpu::Retirement& how) override {
    std::string values = how.completed ? to_bytes(left_, parts_.format) : std::string();
    parts_.in = parts_.out = nullptr; // The next piece may take their place once this one is known.
    if (how.completed)
      parts_.done(StageDone{piece_, std::move(values), how.busy});
    else
      parts_.done(tl::unexpected(
          how.error.value_or(Error{ErrorCode::unavailable, "the node is being closed", ""})));
  }

private:
  gpu::Tensor rows_of(const speculation::QRow& memory, int count) const {
    const int width = parts_.model->handed_on();
    return {memory.get(), count, width, width};
  }

  Parts parts_;
  std::uint64_t piece_;
  std::vector<StageSequence> sequences_;
  std::vector<gpu::PageCopy> copies_;
  int wanted_ = 0;
  int longest_ = 0;
  gpu::Tensor received_;
  gpu::Tensor left_;
  bool ran_ = false;
};

int piece_rows(const NodeParts& node, const models::Model& model, NumberFormat format) {
  const std::size_t row = row_bytes(model.handed_on(), format);
  return int(
      std::clamp<std::size_t>(limits::stage_piece_bytes / row, 1, std::size_t(node.piece_rows)));
}

} // namespace

Result<void> StageService::check(const OpenStage& wanted) {
  if (wanted.page_tokens < 1 || wanted.page_tokens > actors::limits::page_tokens_max)
    return fail(ErrorCode::invalid_argument, "the engine asks for pages that cannot be");
  if (wanted.rows != NumberFormat::f32 && wanted.rows != NumberFormat::bf16)
    return fail(ErrorCode::invalid_argument, "the engine sends rows in no format that there is");
  return {};
}

StageOpened StageService::describe(const NodeParts& node, const NodeParts::Offer& offer,
                                   const OpenStage& wanted) {
  return {offer.info, offer.model.model->kv_shape(wanted.page_tokens).bytes(), node.kv_memory_bytes,
          piece_rows(node, *offer.model.model, wanted.rows)};
}

Result<std::unique_ptr<StageService>> StageService::open(const NodeParts& node,
                                                         NodeParts::OfferRef offer,
                                                         const OpenStage& wanted, Done done,
                                                         std::shared_ptr<SpanLog> spans) {
  std::unique_ptr<StageService> stage(
      new StageService(std::move(offer), std::move(done), std::move(spans)));
  const actors::LoadedModel& model = stage->offer_->model;
  if (wanted.page_tokens % model.model->page_tokens_multiple() != 0)
    return fail(ErrorCode::unsupported,
                fmt::format("{} takes pages of a multiple of {} tokens, and {} were asked for",
                            stage->offer_->info.name, model.model->page_tokens_multiple(),
                            wanted.page_tokens),
                "give another EngineOptions::page_tokens");
  const std::size_t page = model.model->kv_shape(wanted.page_tokens).bytes();
  if (wanted.pages < 1 || wanted.pages > node.kv_memory_bytes / page)
    return fail(ErrorCode::out_of_memory,
                fmt::format("the node gives an engine {} pages of {} bytes, and {} were asked for",
                            node.kv_memory_bytes / page, page, wanted.pages),
                "start it with more --kv-memory, or give EngineOptions::kv_memory_bytes less");
  stage->format_ = wanted.rows;
  stage->piece_rows_ = piece_rows(node, *model.model, wanted.rows);
  auto pool = model.make_pool(wanted.page_tokens, std::size_t(wanted.pages));
  if (!pool)
    return tl::unexpected(pool.error());
  stage->pool_ = *pool;
  auto space = model.model->make_workspace(stage->piece_rows_, stage->piece_rows_);
  if (!space)
    return tl::unexpected(space.error());
  stage->workspace_ = std::move(*space);
  const int values = stage->piece_rows_ * model.model->handed_on();
  const std::size_t most = limits::stage_pieces_in_flight;
  stage->in_ = std::make_shared<execution::RowPool>(
      execution::RowPool::Config{node.host, model.device, values, most});
  stage->out_ = std::make_shared<execution::RowPool>(
      execution::RowPool::Config{model.device, node.host, values, most});
  auto lane = model.device->open_lane("target");
  if (!lane)
    return tl::unexpected(lane.error());
  stage->lane_ = node.closer->guard(std::move(*lane));
  return stage;
}

void StageService::take(const StageRows& rows) {
  check(rows);
  LayersStep::Parts parts{offer_->model.model, pool_,   workspace_, in_->take(),
                          out_->take(),        format_, done_};
  if (!parts.in || !parts.out)
    throw std::runtime_error("no memory for the rows of a pass");
  auto step = logged(spans_, "target " + offer_->model.device->name(),
                     std::make_shared<LayersStep>(std::move(parts), rows));
  if (!lane_->submit(std::move(step)))
    throw std::runtime_error("the lane takes no more work");
}

void StageService::check(const StageRows& rows) const {
  const models::Model& model = *offer_->model.model;
  const std::int64_t pages = std::int64_t(pool_->ledger().total);
  const int page_tokens = pool_->shape().page_tokens;
  std::int64_t count = 0;
  for (const StageSequence& sequence : rows.sequences) {
    check_peer(sequence.rows > 0 && sequence.rows <= piece_rows_ && sequence.logits_from >= 0 &&
                   sequence.logits_from <= sequence.rows,
               "a sequence has no such rows");
    const std::int64_t end = std::int64_t(sequence.start) + sequence.rows;
    check_peer(sequence.start >= 0 && end <= model.info().max_model_len &&
                   end <= std::int64_t(sequence.pages.size()) * page_tokens,
               "rows stand where there is no page");
    check_peer(std::ranges::all_of(sequence.pages, [&](std::uint32_t id) { return id < pages; }),
               "there is no such page");
    count += sequence.rows;
  }
  const auto possible = [&](const gpu::PageCopy& copy) {
    return copy.from < pages && copy.to < pages && copy.from != copy.to;
  };
  check_peer(std::int64_t(rows.copies.size()) <= pages &&
                 std::ranges::all_of(rows.copies, possible),
             "there is no such page to copy");
  check_peer(count > 0 && count <= piece_rows_, "a piece has no such rows");
  check_peer(rows.values.size() == std::size_t(count) * row_bytes(model.handed_on(), format_),
             "a piece has other values than rows");
}

} // namespace paceline::nodes
