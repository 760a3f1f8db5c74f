#include "nodes/remote_stage.hpp"

#include "base/expect.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"

#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace paceline::nodes {

using namespace messages;
using execution::CrossingPass;
using execution::ForwardPass;

namespace {

std::string of_loss(const std::string& place) {
  return place + ", where a stage of the target is, was lost";
}

class RemoteStageProxy final : public actors::StageProxy {
public:
  explicit RemoteStageProxy(std::shared_ptr<const RemoteStageParts> parts)
      : parts_(std::move(parts)) {}
  TargetActor spawn(caf::local_actor& host, const actors::TargetModelParts& parts,
                    std::size_t stage, std::uint64_t named_by) const override {
    return messages::spawn<RemoteStage>(host, parts_, parts, stage, named_by);
  }
  std::string take_loss() const override { return parts_->memory->take_loss(); }

private:
  std::shared_ptr<const RemoteStageParts> parts_;
};

} // namespace

std::shared_ptr<const actors::StageProxy>
make_proxy(std::shared_ptr<const RemoteStageParts> parts) {
  return std::make_shared<RemoteStageProxy>(std::move(parts));
}

RemoteStage::RemoteStage(Handle::pointer self, std::shared_ptr<const RemoteStageParts> remote,
                         const actors::TargetModelParts& parts, std::size_t stage,
                         std::uint64_t named_by)
    : self_(self), parts_(std::move(remote)), telemetry_(parts.telemetry), named_by_(named_by),
      node_(self, parts_->heartbeat, telemetry_->trace,
            [this](const std::string& why) { node_.is_open() ? lost(why) : not_there(why); }) {
  const actors::TargetStage& own = parts.stage(stage);
  stage_ = {stage, own.model, own.pool, {}, {}};
  stage_.workspace =
      base::value_or_throw(own.model->make_workspace(parts.max_rows, parts.max_logit_rows));
  stage_.left = actors::room_for_rows(parts, stage);
  node_.dial(place());
  tell_after(self_, node_.pause(), self_, Wake{});
}

RemoteStageActor::behavior_type RemoteStage::make_behavior() {
  return {
      [](const scheduling::Batch&) {}, // Only the first stage gets batches.
      [this](const StagePass& on) {
        const base::Handling span(*telemetry_, name, "pass");
        enqueue(on.pass);
      },
      [this](const ActorHandles& handles) {
        if (handles.version <= handles_.version)
          return;
        handles_ = handles;
        for (auto& pass : std::exchange(early_, {}))
          enqueue(std::move(pass));
      },
      [](const Ping&) { return Pong{}; },
      [this](const StageArrived& news) {
        const base::Handling span(*telemetry_, name, "arrived");
        arrived(news.pass);
      },
      [this](const Connected& how) { node_.begin(how, place(), place().hello); },
      [this](const StageOpened& stage) {
        node_.believe([&] { opened(stage); }); // A reserve may send valid values.
      },
      [this](const Refused& refused) { node_.refused(refused); },
      [this](const StageDone& done) {
        const base::Handling span(*telemetry_, name, "done");
        node_.believe([&] { take(done); });
      },
      [this](const Pong&) { node_.hear(); },
      [this](const ClockRead& answer) { node_.take(answer); },
      [this](const NodeSpans& news) { node_.take(news); },
      [this](const Wake&) {
        look_after();
        tell_after(self_, node_.pause(), self_, Wake{});
      },
  };
}

// ---- the node ----

void RemoteStage::opened(const StageOpened& stage) {
  if (!node_.is_sender())
    return; // The value came over a connection that was given up.
  check_peer(!node_.is_open() && stage.piece_rows > 0 &&
                 stage.piece_rows <= limits::stage_piece_rows_max,
             "a stage takes no such pieces");
  node_.opened();
  piece_rows_ = stage.piece_rows;
  if (parts_->memory->absence.end())
    telemetry_->log.write(LogLevel::info,
                          fmt::format("{} has the stage: the target goes on", place().name));
  send();
}

/// Asks the next node, or the same again, after a pause. Waiting passes fail only when this has
/// lasted (`out_of_patience`).
void RemoteStage::not_there(const std::string& why) {
  if (!node_.drop() && retry_at_)
    return;
  why_not_ = fmt::format("{}: {}", place().name, one_line(why));
  ++parts_->memory->place;
  retry_at_ = now() + parts_->retry_pause;
  if (parts_->memory->absence.begin(now()))
    telemetry_->log.write(LogLevel::warning,
                          why_not_ +
                              ": a stage of the target is there, so requests wait, and it is "
                              "asked again and again");
}

/// Gives the node up. It is lost together with what it kept of every sequence.
void RemoteStage::lost(const std::string& why) {
  const std::string what = fmt::format("{}: {}", of_loss(place().name), one_line(why));
  parts_->memory->note_loss(what);
  drop_all({ErrorCode::unavailable, what, ""});
  not_there(why);
  node_.end_actor();
}

/// Fails all passes, those included whose pieces are under way: nobody takes these any more.
void RemoteStage::drop_all(const Error& why) {
  sending_ = 0;
  under_way_.clear();
  for (QueuedPass& queued : std::exchange(queue_, {}))
    queued.pass->fail(why);
}

std::size_t RemoteStage::bytes_under_way() const {
  return std::accumulate(under_way_.begin(), under_way_.end(), std::size_t(0));
}

/// Returns how long the rows under way may delay a node's answer, which waits behind them and
/// behind as many rows that come back.
base::Duration RemoteStage::time_of_rows() const {
  return base::from_seconds(2 * double(bytes_under_way()) / limits::wire_bytes_per_second_min);
}

void RemoteStage::look_after() {
  if (node_ && !node_.answers(time_of_rows()))
    return;
  if (out_of_patience()) // A node that is still loading is there, but does not have the stage yet.
    fail_all();
  if (node_)
    return node_.ask();
  if (retry_at_ && now() >= *retry_at_) {
    retry_at_.reset();
    node_.dial(place());
  }
}

bool RemoteStage::out_of_patience() const {
  const auto since = parts_->memory->absence.since();
  return since && now() - *since > parts_->patience;
}

/// Fails all passes that wait. The error differs from that of a closed lane: this actor is here,
/// and the node is missing.
void RemoteStage::fail_all() {
  const std::string why =
      why_not_.empty() ? place().name + ": it has not said that it has the stage" : why_not_;
  drop_all({ErrorCode::not_found, "a stage of the target is gone: " + why,
            "start paceline node there again, with the same model"});
}

std::string RemoteStage::row() const {
  return fmt::format("target {} {}", stage_.number + 1, place().name);
}

// ---- passes ----

/// Enqueues a pass like any stage that is not the first one, with this actor in place of a lane. A
/// pass of a scheduler that has not heard of this actor yet fails when it gets here.
void RemoteStage::enqueue(std::shared_ptr<ForwardPass> pass) {
  const scheduling::Batch& batch = pass->batch;
  if (!batches_.is_due(batch.id))
    return;
  if (batch.handles > handles_.version) {
    early_.push_back(std::move(pass));
    return;
  }
  batches_.note(batch.id);
  auto crossing = std::make_shared<CrossingPass>(
      stage_, pass, telemetry_, Error{ErrorCode::unavailable, of_loss(place().name), ""});
  if (batch.handles < named_by_) // Its rows go on from what the predecessor kept.
    pass->handovers[stage_.number - 1].expect([crossing = std::move(crossing)] {});
  else
    pass->handovers[stage_.number - 1].expect(
        [me = caf::actor_cast<caf::actor_addr>(self_), crossing = std::move(crossing)] {
          if (const auto stage = caf::actor_cast<caf::actor>(me))
            tell(stage, StageArrived{crossing});
        });
  if (const TargetActor& next = handles_.stages[stage_.number + 1])
    tell(self_, next, StagePass{std::move(pass)});
}

void RemoteStage::arrived(PassRef pass) {
  queue_.push_back({std::move(pass), {}, {}, {}});
  if (!node_.is_open() && out_of_patience())
    return fail_all();
  send();
}

bool RemoteStage::may_send() const {
  return node_.is_open() && under_way_.size() < std::size_t(limits::stage_pieces_in_flight) &&
         bytes_under_way() < limits::stage_bytes_in_flight;
}

/// Sends as much as may be under way, as late as possible: passes that a verdict ends meanwhile are
/// not sent.
void RemoteStage::send() {
  while (sending_ < queue_.size() && may_send()) {
    QueuedPass& queued = queue_[sending_];
    if (!queued.begun)
      begin(queued);
    if (!queued.pieces.all_sent()) {
      StageRows rows = queued.pieces.send();
      rows.piece = pieces_++;
      under_way_.push_back(rows.values.size());
      node_.say(std::move(rows));
    }
    if (queued.pieces.all_sent())
      ++sending_;
  }
  while (sending_ > 0 && queue_.front().pieces.all_back())
    end_first();
}

/// Cuts a pass into pieces. A pass with nothing to send has none, and waits only for those before
/// it.
void RemoteStage::begin(QueuedPass& queued) {
  queued.begun = now();
  try {
    if (!queued.pass->prepare(*queued.begun))
      return;
  } catch (const std::bad_alloc&) {
    queued.wrong = {ErrorCode::out_of_memory, "no memory for what stages of the target hand on",
                    "lower EngineOptions::prefill_chunk"};
    return;
  } catch (const std::runtime_error& e) {
    queued.wrong = {ErrorCode::internal, std::string("a step failed: ") + e.what(), {}};
    return;
  }
  const auto& planned = dynamic_cast<const models::PlannedRows&>(*stage_.workspace);
  queued.pieces = StagePieces(planned, queued.pass->copies(), piece_rows_,
                              stage_.model->leaves_wanted(), place().hello.rows);
}

void RemoteStage::take(const StageDone& done) {
  node_.hear();
  check_peer(node_.is_open() && !under_way_.empty() && done.piece == pieces_ - under_way_.size(),
             "a stage answers what nobody has sent");
  under_way_.pop_front();
  queue_.front().pieces.take(done);
  send();
}

void RemoteStage::end_first() {
  const QueuedPass queued = std::move(queue_.front());
  queue_.pop_front();
  --sending_;
  if (queued.wrong)
    return queued.pass->fail(*queued.wrong);
  const base::TimePoint at = now();
  if (telemetry_->trace && telemetry_->trace->wanted() && queued.pieces.any())
    telemetry_->trace->lane_span(row(), "forward", *queued.begun, at);
  queued.pass->complete(at);
}

} // namespace paceline::nodes
