// Bounds of the device layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::gpu::limits {

/// A request for more threads of a CPU lane is refused.
inline constexpr int lane_threads_max = 256;
/// A larger core number in a device's name is refused.
inline constexpr int core_index_max = 4095;
/// A model whose router has its experts in more groups is refused.
inline constexpr int router_groups_max = 32;
/// A recurrent layer whose heads have more dimensions, or whose convolution reads more rows, is
/// refused.
inline constexpr int state_dim_max = 128;
inline constexpr int state_taps_max = 8;
/// A lane's queue holds so many steps; `submit` refuses more, and the owner treats the lane as
/// failed.
inline constexpr std::size_t lane_queue_max = 64;

/// An idle lane's threads look for work this long before they sleep.
inline constexpr std::chrono::microseconds lane_spin{20};
/// They look for this long, asleep or not, when their lane is about to get work (Lane::rouse).
inline constexpr std::chrono::microseconds lane_roused_spin{20000};
/// A thread that waits for its team at the end of an operation sleeps after this.
inline constexpr std::chrono::microseconds barrier_spin{200};
/// A step that waits is asked again after pauses that grow up to this.
inline constexpr std::chrono::microseconds waiting_pause_max{50};
/// A thread that waits for a GPU's piece sleeps but for the last such part of the time that the
/// piece is likely to take, and looks for its end without a pause until it is late by as much.
inline constexpr int waiting_spin_parts = 16;
/// A lane of a GPU remembers how long pieces took for so many kinds, rows and sequences of them.
inline constexpr std::size_t piece_kinds_max = 512;
/// On a simulated lane a step that waits is asked again after this, by the lane's own clock, and
/// later after a part of the time for which it has waited.
inline constexpr std::chrono::microseconds sim_waiting_pause{20};
inline constexpr int sim_waiting_parts = 256;

/// Allocations from this size on are checked against the memory that is free, and come as pages
/// of their own (huge ones where the system gives them).
inline constexpr std::size_t large_allocation = std::size_t(1) << 20;
/// Large buffers of the host are cut from so many bytes of addresses, memory once they are written.
inline constexpr std::size_t reserved_addresses = std::size_t(256) << 20;

/// So much of a GPU's memory is left to the driver and to kernels: the pool's limit is what was
/// free when the GPU was opened, less this. An allocation beyond it is an error that names both.
inline constexpr std::size_t cuda_memory_reserve = std::size_t(512) << 20;
/// Weights are uploaded in pieces of about this size, through two buffers of pinned memory.
inline constexpr std::size_t cuda_upload_piece = std::size_t(16) << 20;
/// What the kernels of a piece are told (tokens, page tables, tasks) has this much memory, and
/// so much more whenever a piece needs it.
inline constexpr std::size_t cuda_arguments = std::size_t(1) << 20;
/// Each of a lane's two sets of operations keeps so many graphs, of pieces that came more than
/// once; the one that was not launched for longest goes. A graph of a model of 32 layers has about
/// 300 kernels.
inline constexpr std::size_t cuda_graphs = 64;
/// Such a set remembers the calls of so many pieces that came once, to know them again. Prompts
/// fill this list alone.
inline constexpr std::size_t cuda_pieces_seen = 16;

} // namespace paceline::gpu::limits
