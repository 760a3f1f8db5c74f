// Between an engine and a node that drafts for it, or has a stage of its target: what crosses
// machines (docs/machines.md).
#pragma once

#include "base/clock.hpp"
#include "gpu/operations.hpp"
#include "gpu/tensor.hpp"
#include "paceline/engine.hpp"
#include "sampling/guess.hpp"
#include "speculation/sequence.hpp"

#include <caf/actor.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::messages {

/// Engine to node, before anything else: what is to draft, and for how much.
struct OpenDraft {
  std::string device;   ///< As the node offers it; empty: its first.
  std::string model;    ///< As the engine calls it, for messages.
  std::string identity; ///< models::checkpoint_identity
  int vocabulary = 0;   ///< The target's ids, without padding.
  int max_model_len = 0;
  int max_num_seqs = 0;
  int fork_rows = 0;      ///< Most rows that forks have in a pass, over all sequences.
  bool only_asks = false; ///< Whether it could be; nothing is drafted.
};

/// Node to engine: what drafts from now on.
struct DraftOpened {
  ModelInfo info;
};

/// Node to engine: why nothing will, or why what was said is of no use.
struct Refused {
  Error why;
  bool takes_files = false; ///< It has no such model, and would take its files (SendModel).
};

/// Layers of a target, and how they are loaded: as all others of that target.
struct StageLayers {
  std::string weights; ///< models::sample_weights: what a stage computes, nobody judges.
  int first = 0;
  int count = 0;
  NumberFormat dtype = NumberFormat::automatic;
  std::optional<gpu::Quantization> blocks; ///< models::LoadOptions::blocks
  int max_positions = 0;                   ///< models::LoadOptions::max_positions
  bool operator==(const StageLayers&) const = default;
};

/// Engine to node, in place of OpenDraft: layers of the engine's target that are to be there.
/// Answered with StageOpened or Refused.
struct OpenStage {
  std::string device; ///< As OpenDraft's, and so the next two.
  std::string model;
  std::string identity;
  StageLayers layers;
  int page_tokens = 0;
  std::uint64_t pages = 0;               ///< That the engine gives out numbers of.
  NumberFormat rows = NumberFormat::f32; ///< Of hidden states, both ways: f32 or bf16.
  bool only_asks = false; ///< Whether it could be, and what it is; pages are not looked at.
};

/// Node to engine: a stage is there.
struct StageOpened {
  ModelInfo info;               ///< Of its layers.
  std::uint64_t page_bytes = 0; ///< Of a page there,
  std::uint64_t kv_bytes = 0;   ///< and of all that it gives one engine.
  int piece_rows = 0;           ///< Rows of a pass that it takes at a time.
};

/// Rows of one sequence, as models::SequenceRows has them.
struct StageSequence {
  std::vector<std::uint32_t> pages;
  int start = 0; ///< Position of the first row.
  int rows = 0;
  int logits_from = 0;
};

/// Engine to node: a piece of a pass, or all of it. Pieces are run in the order in which they come.
struct StageRows {
  std::uint64_t piece = 0; ///< Counts up with each of the connection.
  std::vector<StageSequence> sequences;
  std::vector<gpu::PageCopy> copies; ///< Before that.
  /// Hidden states as the stage before has left them, in OpenStage::rows, little-endian.
  std::string values;
};

/// Node to engine: what a piece has become.
struct StageDone {
  std::uint64_t piece = 0;
  std::string values;    ///< As StageRows::values; behind the last layer those with logits alone.
  base::Duration busy{}; ///< How long the node's lane was at it.
};

/// Engine to node, instead of OpenDraft or before it: what is there?
struct Survey {};

struct NodeDevice {
  std::string name;   ///< As engines ask for it: "cpu:1"
  std::string kernel; ///< gpu::Device::kernel
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;
};

/// Node to engine: what a node has.
struct Surveyed {
  std::vector<NodeDevice> devices;
  std::vector<ModelInfo> models; ///< Those that are loaded, each on each device.
  int engines = 0;               ///< That are connected, this one included,
  int engines_max = 0;           ///< of so many.
  std::uint64_t kept_bytes = 0;  ///< Of files that engines have sent,
  std::uint64_t kept_max = 0;    ///< of so many; 0: it takes none.
};

/// One of a checkpoint's files.
struct ModelFile {
  std::string name; ///< Within the folder.
  std::uint64_t size = 0;
  std::string sha256; ///< Of all of it, in hex.
};

/// Engine to node, which would take them: files that will come. Answered with ModelWanted.
struct SendModel {
  std::string identity; ///< models::checkpoint_identity
  std::vector<ModelFile> files;
};

/// Node to engine: go on where each file ends there.
struct ModelWanted {
  std::vector<std::uint64_t> present; ///< Bytes of each file.
};

/// Engine to node: what comes next. Files come one after the other, each from where it ended.
struct ModelPart {
  std::uint32_t file = 0; ///< Index of SendModel::files.
  std::uint64_t offset = 0;
  std::string bytes;
};

/// Node to engine: one more part may come.
struct ModelTaken {};

/// Node to engine: all files are there and are what they should be.
struct ModelStored {};

/// What a node may spend on forks: speculation::Forking, in few bytes.
struct DraftForking {
  std::uint8_t rows = 0;
  std::uint8_t window = 0;
  std::uint8_t most = 0;
  std::uint8_t beyond = 0;
  /// Odds::by_margin, then Odds::guess, in 255ths.
  std::array<std::uint8_t, sampling::margin_classes + std::size_t(sampling::limits::guesses_max)>
      odds{};
};

/// Where one sequence stands, as far as the node does not know it yet.
struct DraftFrom {
  speculation::SequenceId sequence = 0;
  speculation::Epoch epoch;
  /// The sequence is new there, or begins anew: nothing of it is known.
  std::optional<speculation::SequenceSpec> begins;
  int known = 0;               ///< Committed tokens that the node has, and those behind them.
  std::vector<TokenId> tokens; ///< [length - known]
  std::uint32_t chain = 0;     ///< Counts up with each chain of the connection.
  int start = 0;               ///< As in speculation::Chain::begin.
  int window_end = 0;
  int limit = 0;
  /// Nothing is drawn yet: the node says when it has read what is committed.
  bool reads = false;
  /// The chain is a fork of the one before that the node has told of, by its Chain::attempt. 0: it
  /// is none.
  std::uint32_t fork = 0;
  std::optional<DraftForking> forking; ///< None: no forks are to be written.
  bool guesses = false;                ///< Tokens are to come with what was guessed beside them.
};

/// Engine to node: sequences that are over, then where others stand.
struct DraftWork {
  std::vector<speculation::SequenceId> over;
  std::vector<DraftFrom> sequences;
};

struct TokenProbability {
  TokenId token = 0;
  float probability = 0;
};

/// A fork that will be written, said before its first token is drawn. All of it is bound from then
/// on.
struct OpenedFork {
  std::uint32_t attempt = 0; ///< speculation::Chain::attempt: the frontier and the fork's number.
  std::uint8_t behind = 0;   ///< Its outcome's position, from that frontier on.
  std::uint8_t length = 0;   ///< Tokens that it will have, if it does not end before.
  TokenId token = 0;         ///< Its outcome's.
};

/// All that a fork has got.
struct DraftedFork {
  std::uint32_t attempt = 0;
  std::vector<TokenId> tokens;                  ///< Fewer than were opened: it has ended.
  std::vector<std::vector<TokenProbability>> q; ///< As DraftedTokens::q.
};

/// sampling::Guesses. CAF 0.17 never ends writing an infinite float.
struct DraftedGuesses {
  std::vector<TokenId> tokens;
  std::uint8_t margin_class = 0;
};

/// What a chain has got: a window, or the lookahead behind it, and forks of it.
struct DraftedTokens {
  speculation::SequenceId sequence = 0;
  std::uint32_t chain = 0;
  int first = 0; ///< Position of the first token.
  std::vector<TokenId> tokens;
  /// Of each token, the row of q that it was drawn from, without its zeros; none where the rule
  /// needs no q.
  std::vector<std::vector<TokenProbability>> q;
  bool ends = false; ///< Nothing more will be drawn.
  bool read = false; ///< What is committed has been read; no tokens.
  std::vector<OpenedFork> opened;
  std::vector<DraftedFork> forks;
  std::vector<DraftedGuesses> guesses; ///< Of each token, where they were asked for.
};

/// Node to engine: windows.
struct Drafted {
  std::vector<DraftedTokens> chains;
  base::Duration step{}; ///< How long a pass of the draft takes there; 0: not known yet.
};

/// Engine to node, with a heartbeat: it keeps a trace. What does its clock show?
struct ReadClock {};

/// Node to engine: this.
struct ClockRead {
  base::TimePoint now;
};

/// What a lane of a node's did, by the node's clock.
struct NodeSpan {
  std::string row;
  std::string name;
  base::TimePoint begin;
  base::Duration length{};
};

/// Node to an engine that has read its clock: what was done for it.
struct NodeSpans {
  std::vector<NodeSpan> spans;
  std::uint64_t dropped = 0; ///< There were more.
};

/// To a session, from who loads for it: the model that it asked for is there, or why it is not.
struct ModelReady {
  Error why; ///< Without a message: it is there.
};

/// To a link, from the session at its end: of what it was told, it has taken one value more.
struct ValueTaken {};

/// To the actor that asked for a connection: who sends what it is told over it, or why there is
/// none.
struct Connected {
  caf::actor link;
  Error why;
};

} // namespace paceline::messages
