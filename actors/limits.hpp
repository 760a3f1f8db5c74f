// Bounds of the actors layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::actors::limits {

using namespace std::chrono_literals;

/// Most requests an engine may be asked to queue (EngineOptions::max_waiting is the bound in use;
/// a request beyond it is refused by `submit` as overloaded, with a hint when to retry).
inline constexpr int max_waiting_max = 65'536;
/// Most sequences in one batch (EngineOptions::max_num_seqs).
inline constexpr int max_num_seqs_max = 256;
/// Most prompt tokens in one step (EngineOptions::prefill_chunk): a GPU's grid ends at 65,535 rows.
inline constexpr int prefill_chunk_max = 32'768;
/// Most tokens of a page (EngineOptions::page_tokens).
inline constexpr int page_tokens_max = 1024;
/// Longest prompt text accepted; longer ones are refused before they are tokenized.
inline constexpr std::size_t prompt_bytes_max = 64u << 20;
/// Longest Request::cache_salt; a request with a longer one is refused.
inline constexpr std::size_t cache_salt_bytes_max = 1024;
/// Largest FaultOptions::restarts_max and recomputations_max, and longest of its times and of
/// EngineOptions::time_between_tokens.
inline constexpr int restarts_max_max = 1'000'000;
inline constexpr std::chrono::milliseconds fault_time_max = 24h;
/// Longest Request::deadline and longest drain of Engine::shutdown; longer ones are taken for it.
inline constexpr std::chrono::milliseconds time_max = 24h * 365;

/// Actors of one system that may have their turn at a time before the queue of turns takes more
/// memory.
inline constexpr std::size_t turns_reserved = 1024;
/// Devices that a target is divided among; more are refused.
inline constexpr std::size_t stages_max = 64;
/// Least FaultOptions::heartbeat.
inline constexpr std::chrono::milliseconds heartbeat_min = 20ms;

} // namespace paceline::actors::limits
