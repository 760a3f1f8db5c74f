// Every actor of the engine, listed by the messages that it understands: the system's table of
// contents.
//
// A round in `overlap`, with the messages it costs (single sequence or batch alike):
//   1 scheduler -> target    Batch          the window to verify, by reference to its chain
//   2 target    -> sampler   Logits         the pass is on the lane; judge behind it; with a target
//                                           in stages a StagePass from each to the next before that
//   3 lane      -> sampler   Verdicts       in host memory; the draft's lane has the same news
//   4 sampler   -> scheduler Verdicts
//   5 scheduler -> facade    Commits
//   6 draft lane -> scheduler WindowsReady  only when the scheduler waits
// Pre-enqueued, 1 and 2 of the next round come with those of this one; behind a full hit the
// lane then waits for none of 3 to 6.
#pragma once

#include "messages/values.hpp"

#include <vector>

namespace paceline::messages {

/// Guards the requests: owns the log of committed tokens, decides where each request ends, and
/// feeds the callers' streams.
using FacadeActor = Interface<
    /// A new request; refused (an Error event, then nothing) when the admission queue is full.
    caf::result<void>(scheduling::Submit),
    /// A caller wants no more; harmless when late or repeated.
    caf::result<void>(Cancel),
    /// Newly committed tokens from the scheduler; repeats are dropped.
    caf::result<void>(scheduling::Commits),
    /// A sequence that cannot go on.
    caf::result<void>(scheduling::Failed),
    /// No new requests; answers when none is left.
    caf::result<Drained>(Drain),
    /// New handles after a restart; a new scheduler gets every unfinished request again.
    caf::result<void>(ActorHandles),
    /// A request's deadline may have passed.
    caf::result<void>(Wake)>;

/// Decides what runs next. Owns the sequences, mints the epochs, touches no tensor.
using SchedulerActor = Interface<
    /// A request to decode, with all its tokens so far.
    caf::result<void>(scheduling::Admit),
    /// A request whose end was decided elsewhere.
    caf::result<void>(scheduling::Abandon),
    /// The result of a batch; stale verdicts are dropped.
    caf::result<void>(scheduling::Verdicts),
    /// The windows that were waited for are there.
    caf::result<void>(WindowsReady),
    /// New handles after a restart: sequences that depended on the old ones are recomputed.
    caf::result<void>(ActorHandles),
    /// A wait may have lasted too long.
    caf::result<void>(Wake)>;

/// Drafts ahead: owns the draft lane.
using DraftActor = Interface<
    /// The frontiers of sequences: drafting goes on or begins anew there. Older epochs are dropped.
    caf::result<void>(speculation::Frontiers),
    /// Sequences are gone.
    caf::result<void>(scheduling::Forget),
    /// The way to the lane, for as long as this actor lives.
    caf::result<Lent>(Borrow), caf::result<Pong>(Ping)>;

/// One end of a connection: sends the values that it is told across, and tells its owner those that
/// arrive.
using LinkActor = Interface<
    caf::result<void>(OpenDraft), caf::result<void>(DraftOpened), caf::result<void>(Refused),
    caf::result<void>(DraftWork), caf::result<void>(Drafted), caf::result<void>(Ping),
    caf::result<void>(Pong), caf::result<void>(Survey), caf::result<void>(Surveyed),
    caf::result<void>(SendModel), caf::result<void>(ModelWanted), caf::result<void>(ModelPart),
    caf::result<void>(ModelTaken), caf::result<void>(ModelStored), caf::result<void>(OpenStage),
    caf::result<void>(StageOpened), caf::result<void>(StageRows), caf::result<void>(StageDone),
    caf::result<void>(ReadClock), caf::result<void>(ClockRead), caf::result<void>(NodeSpans),
    /// Its owner has room for more.
    caf::result<void>(ValueTaken)>;

/// Stands for a draft that is on a node: understands the messages of a draft, and those that come
/// from the node.
using RemoteDraftActor = Interface<
    // These are DraftActor's handlers.
    caf::result<void>(speculation::Frontiers), caf::result<void>(scheduling::Forget),
    caf::result<Lent>(Borrow), caf::result<Pong>(Ping),
    /// There is a connection, or why not.
    caf::result<void>(Connected),
    /// The node has the draft model, or has not.
    caf::result<void>(DraftOpened), caf::result<void>(Refused),
    /// Windows that the node has drafted.
    caf::result<void>(Drafted),
    /// The node is alive.
    caf::result<void>(Pong),
    /// What the node's clock shows, and what its lane did, for a trace.
    caf::result<void>(ClockRead), caf::result<void>(NodeSpans),
    /// Time to ask whether the node is alive.
    caf::result<void>(Wake)>;

/// Runs on a node and writes a model's files, as they come, to the node's cache of models.
using ReceiverActor = Interface<
    /// Looks what parts of the files are there already, and asks for the rest.
    caf::result<void>(Wake),
    /// The next part of the files.
    caf::result<void>(ModelPart)>;

/// Runs on a node for the engine at the other end of a connection: drafts for it, or has a stage of
/// its target.
using NodeSessionActor = Interface<
    /// The engine asks what the node has; answered with Surveyed.
    caf::result<void>(Survey),
    /// Files of a model that the node lacks: their parts are passed on to a receiver.
    caf::result<void>(SendModel), caf::result<void>(ModelPart),
    /// The model that the engine asked for has been loaded, or not.
    caf::result<void>(ModelReady),
    /// The model that is to draft; answered with DraftOpened or Refused.
    caf::result<void>(OpenDraft),
    /// The frontiers of the engine's sequences.
    caf::result<void>(DraftWork),
    /// Layers that are to be a stage, answered with StageOpened or Refused; then its passes.
    caf::result<void>(OpenStage), caf::result<void>(StageRows),
    /// Windows are there (from the draft's lane).
    caf::result<void>(WindowsReady),
    /// The engine asks whether the node is alive; answered with Pong.
    caf::result<void>(Ping),
    /// The engine keeps a trace; answered with ClockRead, and NodeSpans follow.
    caf::result<void>(ReadClock),
    /// Time to look whether the engine is alive.
    caf::result<void>(Wake)>;

/// Runs the target's forward passes, or a stage of them: owns a lane of the target's.
using TargetActor = Interface<
    /// The first stage: enqueues a forward pass and tells the next stage or, behind the last,
    /// passes the logits' handle on to the sampler.
    caf::result<void>(scheduling::Batch),
    /// Any other stage: enqueues what follows on its lane when the pass gets there, and passes the
    /// pass on as the first stage does.
    caf::result<void>(StagePass), caf::result<void>(ActorHandles), caf::result<Pong>(Ping)>;

/// Stands for a stage of the target that is on a node: understands the messages of a stage that is
/// not the first, and those that come from the node.
using RemoteStageActor = Interface<
    // These are TargetActor's handlers; a batch never comes.
    caf::result<void>(scheduling::Batch), caf::result<void>(StagePass),
    caf::result<void>(ActorHandles), caf::result<Pong>(Ping),
    /// A pass has left the stage before.
    caf::result<void>(StageArrived),
    /// There is a connection, or why not.
    caf::result<void>(Connected),
    /// The node has the stage, or has not.
    caf::result<void>(StageOpened), caf::result<void>(Refused),
    /// A piece of a pass has come back from the node.
    caf::result<void>(StageDone),
    /// The node is alive.
    caf::result<void>(Pong),
    /// What the node's clock shows, and what its lane did, for a trace.
    caf::result<void>(ClockRead), caf::result<void>(NodeSpans),
    /// Time to ask whether the node is alive, or to look for it again.
    caf::result<void>(Wake)>;

/// Judges: enqueues verification behind the pass, which tells the draft, and sends the verdicts.
using SamplerActor = Interface<
    /// A pass is on the lane: judge behind it.
    caf::result<void>(Logits),
    /// A verification has retired: the scheduler is told.
    caf::result<void>(scheduling::Verdicts),
    /// Frontiers for a draft that has not lent its inbox yet: the draft actor is told of them.
    caf::result<void>(speculation::Frontiers), caf::result<void>(ActorHandles),
    caf::result<Pong>(Ping)>;

/// Manages pages of all pools, and what prefixes are worth keeping.
using KvCacheActor = Interface<
    /// Pages for a sequence that has none.
    caf::result<scheduling::KvGrant>(scheduling::KvReserve),
    /// More pages.
    caf::result<scheduling::KvGrant>(scheduling::KvGrow),
    /// No more pages; valid ones go to the prefix cache.
    caf::result<void>(scheduling::KvRelease),
    /// Valid pages may be shared already.
    caf::result<void>(scheduling::KvPublish),
    /// Whatever was granted before is over.
    caf::result<void>(scheduling::KvReset), caf::result<Pong>(Ping)>;

/// Starts all others, watches them, and starts them again.
using SupervisorActor = Interface<
    /// The handles now; answered once everything runs.
    caf::result<ActorHandles>(Ping),
    /// Ends the draft for good.
    caf::result<void>(scheduling::DisableDraft),
    /// Begins anew with the target on its standby, unless it is there already.
    caf::result<void>(scheduling::MoveTarget),
    /// A back-off has passed.
    caf::result<void>(Wake)>;

/// The handles of all actors. An actor keeps those it needs and compares them with those it had.
struct ActorHandles {
  std::uint64_t version = 0; ///< Counts up; an older one is stale.
  FacadeActor facade;
  SchedulerActor scheduler;
  DraftActor draft; ///< Null: there is none, or it is down.
  /// The target's stages, in the order in which a batch takes them. Null (of several): it is down.
  std::vector<TargetActor> stages;
  SamplerActor sampler;
  KvCacheActor kv_cache;
  SupervisorActor supervisor;
  std::string lost;   ///< The last actor that ended without being told to, and why; for messages.
  bool ended = false; ///< The engine ends because of that loss.
};

} // namespace paceline::messages
