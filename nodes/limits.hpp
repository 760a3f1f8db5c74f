// Bounds of the nodes layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::nodes::limits {

using namespace std::chrono_literals;

/// A peer that announces a longer frame to a node, or to an engine (rows of q among them), is cut
/// off before anything is allocated.
inline constexpr std::uint32_t node_frame_bytes_max = 8u << 20;
inline constexpr std::uint32_t engine_frame_bytes_max = 64u << 20;
/// After so many tokens, or numbers of q, what is to be sent goes on in another frame.
inline constexpr std::size_t frame_numbers_max = 256u << 10;
/// Before a peer has said what it wants, its frames have at most so many bytes: it may be anybody.
inline constexpr std::uint32_t first_frame_bytes_max = 16u << 10;
/// So many bytes may wait to be sent; a peer that takes no more is cut off.
inline constexpr std::size_t unsent_bytes_max = 128u << 20;
/// So many values of an engine's, and bytes of their frames, may wait in its session's mailbox: so
/// much comes together while a machine stands still. Who sends more is told so, and the connection
/// ends.
inline constexpr std::size_t values_waiting_max = 4096;
inline constexpr std::size_t waiting_bytes_max = 64u << 20;
/// A node drafts for so many engines at a time, those that are just connecting included. As many
/// more are told so, and further ones are cut off.
inline constexpr int sessions_max = 32;
/// A node has loaded, or is loading, so many ranges of layers and models that were sent, because
/// engines asked: others are refused until the last engine has let go of one. A range of layers
/// counts once, whoever has it.
inline constexpr std::size_t loads_max = 16;
/// A node knows so many sequences of an engine for each of its EngineOptions::max_num_seqs: those
/// that are over may be named a moment later than those in their place.
inline constexpr int sequences_per_seat = 2;
/// All of them together have at most so many tokens, at their longest.
inline constexpr std::int64_t session_tokens_max = 64 << 20;
/// Connecting, and then the first answer of a node, may take so long each.
inline constexpr std::chrono::milliseconds connect_timeout = 2s;
/// A node waits so long for the first frame.
inline constexpr std::chrono::milliseconds hello_timeout = 5s;
/// A node lets go of an engine by which it hears nothing for so long.
inline constexpr std::chrono::milliseconds session_patience = 10s;
/// A node keeps so many spans of what its lanes do for an engine with a trace, and sends so many at
/// a time.
inline constexpr std::size_t node_spans_held = 1u << 14;
inline constexpr std::size_t node_spans_sent = 1u << 10;
/// A node that says of a draft's pass that it took longer is cut off.
inline constexpr std::chrono::hours pass_time_max = 24h;
/// A sequence's draft reads at most so many tokens in the pass that draws; with more it reads
/// first, and its positions are bound when it has.
inline constexpr int read_while_drafting_max = 32;
/// A draft on a node sends at most so many forks beside a window, of about so many bytes, without
/// rows of q and with them: the likeliest go first, and where none fits there are none. With one
/// window in so many all guesses come, of which forks are chosen.
inline constexpr int node_forks_max = 8;
inline constexpr std::size_t node_fork_bytes_max = 128;
inline constexpr std::size_t node_fork_q_bytes_max = 2048;
inline constexpr int node_guesses_every = 16;
/// Files of a model go to a node (its --accept-models) in parts of so many bytes, so many of which
/// may be under way; a peer that sends more is cut off.
inline constexpr std::size_t model_part_bytes = 256u << 10;
inline constexpr int model_parts_in_flight = 8;
/// A peer that announces more files of a model, or more bytes of a file, is cut off.
inline constexpr std::size_t model_files_max = 1024 + 3;
inline constexpr std::uint64_t model_file_bytes_max = std::uint64_t(1) << 44;
/// So much is left free on a node's disk; a model that leaves less is refused.
inline constexpr std::uint64_t disk_left_bytes = 64u << 20;
/// Hidden states go to a stage on a node in pieces of so many bytes and rows, so many of which may
/// be under way; a peer that sends more is cut off.
inline constexpr std::size_t stage_piece_bytes = 512u << 10;
inline constexpr int stage_piece_rows_max = 256;
inline constexpr int stage_pieces_in_flight = 8;
/// An engine sends so many bytes of these before some have come back, but for the last piece, and
/// over no wire that is slower than so many a second: what a node says waits behind them, so that
/// its silence counts from when they have crossed, there and back.
inline constexpr std::size_t stage_bytes_in_flight = 1u << 20;
inline constexpr std::size_t wire_bytes_per_second_min = 500'000;
/// A model is not sent when so many connections in a row ended without one more byte of it.
inline constexpr int sending_attempts_max = 4;
/// This is the pause before the next one, and before a node is asked again whether another engine
/// has sent it.
inline constexpr std::chrono::milliseconds sending_pause = 250ms;

} // namespace paceline::nodes::limits
