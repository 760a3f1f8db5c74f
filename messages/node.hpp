// The messages between an engine and a node that drafts for it or has a stage of its target. They
// cross machines (docs/machines.md).
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

/// Engine to node, before anything else: the model that is to draft, and the sizes it is to serve.
struct OpenDraft {
  std::string device;   ///< The node's name for the device; empty: its first.
  std::string model;    ///< The engine's name for the model, for messages.
  std::string identity; ///< models::checkpoint_identity
  int vocabulary = 0;   ///< The target's ids, without padding.
  int max_model_len = 0;
  int max_num_seqs = 0;
  int fork_rows = 0;      ///< Most rows that forks have in a pass, over all sequences.
  bool only_asks = false; ///< The engine asks whether it could be; nothing is drafted.
};

/// Node to engine: the model that drafts from now on.
struct DraftOpened {
  ModelInfo info;
};

/// Node to engine: why the node will not do what was asked, or why a message was of no use.
struct Refused {
  Error why;
  bool takes_files = false; ///< The node lacks the model, and would take its files (SendModel).
};

/// Layers of a target, and how they are loaded, which is as all other layers of that target.
struct StageLayers {
  std::string weights; ///< models::sample_weights, for nobody judges what a stage computes.
  int first = 0;
  int count = 0;
  NumberFormat dtype = NumberFormat::automatic;
  std::optional<gpu::Quantization> blocks; ///< models::LoadOptions::blocks
  int max_positions = 0;                   ///< models::LoadOptions::max_positions
  bool int8_rows = false;                  ///< Same as models::LoadOptions::int8_rows
  bool int8_cache = false;                 ///< Same as models::LoadOptions::int8_cache
  bool operator==(const StageLayers&) const = default;
};

/// Engine to node, in place of OpenDraft: layers of the engine's target that are to be there.
/// Answered with StageOpened or Refused.
struct OpenStage {
  std::string device; ///< This and the next two are as in OpenDraft.
  std::string model;
  std::string identity;
  StageLayers layers;
  int page_tokens = 0;
  std::uint64_t pages = 0;               ///< Number of pages that the engine gives out.
  NumberFormat rows = NumberFormat::f32; ///< Format of hidden states, both ways: f32 or bf16.
  /// The engine asks whether the stage could be, and what it is; `pages` is not looked at.
  bool only_asks = false;
};

/// Node to engine: a stage is there.
struct StageOpened {
  ModelInfo info;               ///< Describes the stage's layers.
  std::uint64_t page_bytes = 0; ///< Size of a page on the node.
  std::uint64_t kv_bytes = 0;   ///< Size of all pages that the node gives one engine.
  int piece_rows = 0;           ///< Rows of a pass that the node takes at a time.
};

/// Rows of one sequence, as in models::SequenceRows.
struct StageSequence {
  std::vector<std::uint32_t> pages;
  int start = 0; ///< Position of the first row.
  int rows = 0;
  int logits_from = 0;
};

/// Engine to node: a piece of a pass, or all of it. Pieces are run in the order in which they come.
struct StageRows {
  std::uint64_t piece = 0; ///< Number of the piece, counted over the connection.
  std::vector<StageSequence> sequences;
  std::vector<gpu::PageCopy> copies; ///< Page copies that are made before the rows are run.
  /// Hidden states as the stage before has left them, in OpenStage::rows, little-endian.
  std::string values;
};

/// Node to engine: the result of a piece.
struct StageDone {
  std::uint64_t piece = 0;
  std::string
      values; ///< The same as StageRows::values; behind the last layer only rows with logits.
  base::Duration busy{}; ///< How long the node's lane worked on the piece.
};

/// Engine to node, instead of OpenDraft or before it: asks what the node has.
struct Survey {};

struct NodeDevice {
  std::string name;   ///< Name by which engines ask for it, such as "cpu:1".
  std::string kernel; ///< gpu::Device::kernel
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;
};

/// Node to engine: what a node has.
struct Surveyed {
  std::vector<NodeDevice> devices;
  std::vector<ModelInfo> models; ///< Models that are loaded, each on each device.
  int engines = 0;               ///< Engines that are connected, this one included.
  int engines_max = 0;           ///< Most engines that may be connected.
  std::uint64_t kept_bytes = 0;  ///< Bytes of files that engines have sent.
  std::uint64_t kept_max = 0;    ///< Most bytes of such files; 0: the node takes none.
};

/// One of a checkpoint's files.
struct ModelFile {
  std::string name; ///< Name within the folder.
  std::uint64_t size = 0;
  std::string sha256; ///< Digest of the whole file, in hex.
};

/// Engine to a node that takes files: the files that will come. Answered with ModelWanted.
struct SendModel {
  std::string identity; ///< models::checkpoint_identity
  std::vector<ModelFile> files;
};

/// Node to engine: each file is to go on where it ends on the node.
struct ModelWanted {
  std::vector<std::uint64_t> present; ///< Bytes of each file that the node has.
};

/// Engine to node: the next part. Files come one after the other, each from where it ended there.
struct ModelPart {
  std::uint32_t file = 0; ///< Index of SendModel::files.
  std::uint64_t offset = 0;
  std::string bytes;
};

/// Node to engine: one more part may come.
struct ModelTaken {};

/// Node to engine: all files are there and are what they should be.
struct ModelStored {};

/// A node's budget for forks: speculation::Forking in a few bytes.
struct DraftForking {
  std::uint8_t rows = 0;
  std::uint8_t window = 0;
  std::uint8_t most = 0;
  std::uint8_t beyond = 0;
  /// Odds::by_margin, then Odds::guess, in 255ths.
  std::array<std::uint8_t, sampling::margin_classes + std::size_t(sampling::limits::guesses_max)>
      odds{};
};

/// The part of a sequence's frontier that the node does not know yet.
struct DraftFrom {
  speculation::SequenceId sequence = 0;
  speculation::Epoch epoch;
  /// The sequence is new there, or begins anew: nothing of it is known.
  std::optional<speculation::SequenceSpec> begins;
  int known = 0; ///< Number of committed tokens that the node has; `tokens` are those behind.
  std::vector<TokenId> tokens; ///< [length - known]
  std::uint32_t chain = 0;     ///< Number of the chain, counted over the connection.
  int start = 0;               ///< This and the next two are as in speculation::Chain::begin.
  int window_end = 0;
  int limit = 0;
  /// Nothing is drawn yet: the node answers when it has read the committed tokens.
  bool reads = false;
  /// Chain::attempt of the fork, announced by the node, of the chain before that this chain is. 0:
  /// the chain is no fork.
  std::uint32_t fork = 0;
  std::optional<DraftForking> forking; ///< Not set: no forks are to be written.
  bool guesses = false;                ///< Tokens are to come with the guesses beside them.
};

/// Engine to node: the sequences that are over, and where others stand.
struct DraftWork {
  std::vector<speculation::SequenceId> over;
  std::vector<DraftFrom> sequences;
};

struct TokenProbability {
  TokenId token = 0;
  float probability = 0;
};

/// A fork that will be written, announced before its first token is drawn. The whole fork is bound
/// from then on.
struct OpenedFork {
  std::uint32_t attempt = 0; ///< speculation::Chain::attempt: the frontier and the fork's number.
  std::uint8_t behind = 0;   ///< Position of its outcome, from that frontier on.
  std::uint8_t length = 0;   ///< Tokens that it will have, if it does not end before.
  TokenId token = 0;         ///< Token of its outcome.
};

/// A fork's tokens, all at once.
struct DraftedFork {
  std::uint32_t attempt = 0;
  std::vector<TokenId> tokens; ///< Fewer than OpenedFork::length: the fork has ended.
  std::vector<std::vector<TokenProbability>> q; ///< The same as DraftedTokens::q.
};

/// sampling::Guesses. CAF 0.17 never ends writing an infinite float.
struct DraftedGuesses {
  std::vector<TokenId> tokens;
  std::uint8_t margin_class = 0;
};

/// New tokens of a chain: a window, or the lookahead behind it, and forks of the chain.
struct DraftedTokens {
  speculation::SequenceId sequence = 0;
  std::uint32_t chain = 0;
  int first = 0; ///< Position of the first token.
  std::vector<TokenId> tokens;
  /// The row of q that each token was drawn from, without its zeros; empty where the rule needs no
  /// q.
  std::vector<std::vector<TokenProbability>> q;
  bool ends = false; ///< Nothing more will be drawn.
  bool read = false; ///< The committed tokens have been read; `tokens` is empty.
  std::vector<OpenedFork> opened;
  std::vector<DraftedFork> forks;
  std::vector<DraftedGuesses> guesses; ///< Guesses beside each token, where they were asked for.
};

/// Node to engine: windows.
struct Drafted {
  std::vector<DraftedTokens> chains;
  base::Duration step{}; ///< How long a pass of the draft takes there; 0: not known yet.
};

/// Engine to node, with a heartbeat: the engine keeps a trace, and asks what the node's clock
/// shows.
struct ReadClock {};

/// Node to engine: what the node's clock shows.
struct ClockRead {
  base::TimePoint now;
};

/// A piece of work of a node's lane, by the node's clock.
struct NodeSpan {
  std::string row;
  std::string name;
  base::TimePoint begin;
  base::Duration length{};
};

/// Node to an engine that has read its clock: what the node's lanes did for that engine.
struct NodeSpans {
  std::vector<NodeSpan> spans;
  std::uint64_t dropped = 0; ///< Number of spans that were lost for lack of room.
};

/// Loader to session: the model that the session asked for is there, or why it is not.
struct ModelReady {
  Error why; ///< Empty message: the model is there.
};

/// Session to the link at its end: the session has taken one more of the values that it was told.
struct ValueTaken {};

/// The answer to an actor that asked for a connection: the link, which sends over it, or why there
/// is none.
struct Connected {
  caf::actor link;
  Error why;
};

} // namespace paceline::messages
