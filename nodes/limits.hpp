// Bounds of the nodes layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::nodes::limits {

using namespace std::chrono_literals;

/// Bytes of a frame that a node reads, and of one that an engine does (rows of q among them); a
/// peer that announces more is cut off before anything is allocated.
inline constexpr std::uint32_t node_frame_bytes_max = 8u << 20;
inline constexpr std::uint32_t engine_frame_bytes_max = 64u << 20;
/// Tokens, or numbers of q, after which what is to be sent goes on in another frame.
inline constexpr std::size_t frame_numbers_max = 256u << 10;
/// The same before the peer has said what it wants: it may be anybody.
inline constexpr std::uint32_t first_frame_bytes_max = 16u << 10;
/// Bytes that wait to be sent; a peer that takes no more is cut off.
inline constexpr std::size_t unsent_bytes_max = 128u << 20;
/// Values of an engine's that wait in its session's mailbox, and bytes of their frames: so much
/// comes together while a machine stands still. Who sends more is told so, and the connection ends.
inline constexpr std::size_t values_waiting_max = 4096;
inline constexpr std::size_t waiting_bytes_max = 64u << 20;
/// Engines that a node drafts for at a time, those that are just connecting included. As many more
/// are told so, and further ones are cut off.
inline constexpr int sessions_max = 32;
/// Layers of targets, and models that were sent, which a node has loaded or is loading because
/// engines asked: others are refused until the last engine has let go of one. A range of layers
/// counts once, whoever has it.
inline constexpr std::size_t loads_max = 16;
/// Of one engine: sequences that a node knows, in terms of EngineOptions::max_num_seqs. Those that
/// are over may be named a moment later than those in their place.
inline constexpr int sequences_per_seat = 2;
/// And tokens of all of them together, at their longest.
inline constexpr std::int64_t session_tokens_max = 64 << 20;
/// To connect, and then for the first answer of a node.
inline constexpr std::chrono::milliseconds connect_timeout = 2s;
/// How long a node waits for the first frame.
inline constexpr std::chrono::milliseconds hello_timeout = 5s;
/// Silence after which a node lets go of an engine, in heartbeats of FaultOptions' default.
inline constexpr std::chrono::milliseconds session_patience = 10s;
/// Of what a node's lanes do for an engine that keeps a trace: kept there, and sent at a time.
inline constexpr std::size_t node_spans_held = 1u << 14;
inline constexpr std::size_t node_spans_sent = 1u << 10;
/// Longest pass of a draft on a node; one that says it took longer is cut off.
inline constexpr std::chrono::hours pass_time_max = 24h;
/// Tokens that a sequence's draft may have to read in the pass that draws; with more it reads
/// first, and its positions are bound when it has.
inline constexpr int read_while_drafting_max = 32;
/// Of forks that a draft on a node sends beside a window: how many at most, and about how many
/// bytes, without rows of q and with them. The likeliest go first, and where none fits there are
/// none. Windows between two with which all guesses come, of which forks are chosen.
inline constexpr int node_forks_max = 8;
inline constexpr std::size_t node_fork_bytes_max = 128;
inline constexpr std::size_t node_fork_q_bytes_max = 2048;
inline constexpr int node_guesses_every = 16;
/// Of a model's files that go to a node (its --accept-models): bytes of a part, and parts that may
/// be under way; a peer that sends more is cut off.
inline constexpr std::size_t model_part_bytes = 256u << 10;
inline constexpr int model_parts_in_flight = 8;
/// Files of one model, and bytes of one file; who announces more is cut off.
inline constexpr std::size_t model_files_max = 1024 + 3;
inline constexpr std::uint64_t model_file_bytes_max = std::uint64_t(1) << 44;
/// Left free on a node's disk; a model that leaves less is refused.
inline constexpr std::uint64_t disk_left_bytes = 64u << 20;
/// Of a stage on a node: bytes of a piece's hidden states, rows of it, and pieces that may be under
/// way; a peer that sends more is cut off.
inline constexpr std::size_t stage_piece_bytes = 512u << 10;
inline constexpr int stage_piece_rows_max = 256;
inline constexpr int stage_pieces_in_flight = 8;
/// Bytes of these that an engine sends before some have come back, but for the last piece; and of a
/// second, of the slowest wire over which a stage may be: what a node says waits behind them, so
/// that its silence counts from when they have crossed, there and back.
inline constexpr std::size_t stage_bytes_in_flight = 1u << 20;
inline constexpr std::size_t wire_bytes_per_second_min = 500'000;
/// Connections in a row that may end without one more byte of a model having arrived.
inline constexpr int sending_attempts_max = 4;
/// Before the next one, and before a node is asked again whether another engine has sent it.
inline constexpr std::chrono::milliseconds sending_pause = 250ms;

} // namespace paceline::nodes::limits
