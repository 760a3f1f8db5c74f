// Stands for a stage of the target that is on a node.
#pragma once

#include "actors/target_model.hpp"
#include "nodes/node_connection.hpp"
#include "nodes/stage_pieces.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::nodes {

struct RemoteStageParts {
  struct Place : NodePlace {
    messages::OpenStage hello;
  };
  std::vector<Place> places;               ///< The stage's own, then its reserve, if it has one.
  std::chrono::milliseconds heartbeat{};   ///< Longest silence before a node counts as gone.
  std::chrono::milliseconds retry_pause{}; ///< Pause before the next node, or the same, is asked.
  std::chrono::milliseconds patience{};    ///< How long passes wait if no node is there.

  /// State that one RemoteStage leaves to the next.
  struct Memory {
    NodeAbsence absence;
    std::atomic<std::size_t> place{0}; ///< Index in `places` of the current node.
    /// Notes why the node was lost last, for messages.
    void note_loss(std::string why) {
      const std::lock_guard lock(mutex);
      last_loss = std::move(why);
    }
    /// Returns that reason and forgets it; empty: nobody has noted one.
    std::string take_loss() {
      const std::lock_guard lock(mutex);
      return std::exchange(last_loss, {});
    }

  private:
    std::mutex mutex;
    std::string last_loss;
  };
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
};

/// Sends the rows of passes to the node, in pieces of which a few are under way at a time, and puts
/// the rows that come back where the next stage reads them. A pass that is known not to go on
/// before it is sent is not sent.
///
/// It ends with its connection, when nobody answers, and at an invalid answer, because what the
/// node kept of the sequences is lost then: the supervisor starts the next one, and sequences begin
/// anew from their committed tokens. The node and its reserve are asked in turn. Passes wait until
/// one of them has the stage, up to a patience; then they fail, with an error that names the node,
/// until it is back.
class RemoteStage {
public:
  using Handle = messages::RemoteStageActor;
  static constexpr const char* name = "remote stage";

  /// named_by: the version of the first handles that name this stage. Throws std::runtime_error if
  /// there is no memory.
  RemoteStage(Handle::pointer self, std::shared_ptr<const RemoteStageParts> remote,
              const actors::TargetModelParts& parts, std::size_t stage, std::uint64_t named_by);
  Handle::behavior_type make_behavior();

private:
  using PassRef = std::shared_ptr<execution::CrossingPass>;
  /// A pass that has arrived at this stage.
  struct QueuedPass {
    PassRef pass;
    StagePieces pieces;
    std::optional<base::TimePoint> begun; ///< Time when it was cut into pieces.
    std::optional<Error> wrong;
  };

  void enqueue(std::shared_ptr<execution::ForwardPass> pass);
  void arrived(PassRef pass);
  std::size_t bytes_under_way() const;
  base::Duration time_of_rows() const;
  bool may_send() const;
  void send();
  void begin(QueuedPass& queued);
  void take(const messages::StageDone& done);
  void end_first();
  void opened(const messages::StageOpened& stage);
  void not_there(const std::string& why);
  void lost(const std::string& why);
  bool out_of_patience() const;
  void fail_all();
  void drop_all(const Error& why);
  const RemoteStageParts::Place& place() const {
    return parts_->places[parts_->memory->place % parts_->places.size()];
  }
  std::string row() const; ///< Returns the name of its row in traces.
  void look_after();
  base::TimePoint now() const { return self_->clock().now(); }

  Handle::pointer self_;
  std::shared_ptr<const RemoteStageParts> parts_;
  std::shared_ptr<base::Telemetry> telemetry_;
  execution::Stage stage_;
  messages::ActorHandles handles_;
  std::uint64_t named_by_; ///< Senders with older handles mean the stage before this one.
  scheduling::BatchOrder batches_;
  std::vector<std::shared_ptr<execution::ForwardPass>> early_; ///< They wait for handles.

  NodeConnection node_;
  std::optional<base::TimePoint> retry_at_;
  std::string why_not_;
  int piece_rows_ = 0;
  std::deque<QueuedPass> queue_;      ///< Passes; those that are sent, wholly or partly, are first.
  std::size_t sending_ = 0;           ///< Index of the first pass that is not wholly sent.
  std::uint64_t pieces_ = 0;          ///< Number of pieces that were sent.
  std::deque<std::size_t> under_way_; ///< Bytes of the rows of each piece that is not back.
};

/// Makes the proxy from which a supervisor starts a RemoteStage.
std::shared_ptr<const actors::StageProxy> make_proxy(std::shared_ptr<const RemoteStageParts> parts);

} // namespace paceline::nodes
