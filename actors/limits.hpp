// Bounds of the actors layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::actors::limits {

using namespace std::chrono_literals;

/// An engine queues no more requests (EngineOptions::max_waiting is the bound in use); `submit`
/// refuses those beyond it as overloaded, with a hint when to retry.
inline constexpr int max_waiting_max = 65'536;
/// EngineOptions::max_num_seqs is at most this.
inline constexpr int max_num_seqs_max = 256;
/// EngineOptions::prefill_chunk is at most this: a GPU's grid ends at 65,535 rows.
inline constexpr int prefill_chunk_max = 32'768;
/// EngineOptions::page_tokens is at most this.
inline constexpr int page_tokens_max = 1024;
/// A longer text of a prompt is refused before it is tokenized.
inline constexpr std::size_t prompt_bytes_max = 64u << 20;
/// A request with a longer Request::cache_salt is refused.
inline constexpr std::size_t cache_salt_bytes_max = 1024;
/// FaultOptions::restarts_max and recomputations_max are at most this, and its times and
/// EngineOptions::time_between_tokens no longer.
inline constexpr int restarts_max_max = 1'000'000;
inline constexpr std::chrono::milliseconds fault_time_max = 24h;
/// A longer Request::deadline, or drain of Engine::shutdown, is taken for this.
inline constexpr std::chrono::milliseconds time_max = 24h * 365;

/// So many actors of a system may have their turn at a time before the queue of turns takes more
/// memory.
inline constexpr std::size_t turns_reserved = 1024;
/// More devices of a target, or of a draft, are refused.
inline constexpr std::size_t stages_max = 64;
/// FaultOptions::heartbeat is at least this.
inline constexpr std::chrono::milliseconds heartbeat_min = 20ms;

} // namespace paceline::actors::limits
