// Bounds of the apps layer. Those of the server are defaults of its options where docs/serving.md
// says so.
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::apps::limits {

using namespace std::chrono_literals;

/// A larger body (--max-body) is answered 413, before it is read.
inline constexpr std::size_t body_bytes = std::size_t(16) << 20;
/// The request line and headers, a body's trailers, and all extensions of its chunks have at most
/// so many bytes each, else 431; the body of an endpoint that is for everybody has as many, else
/// 413.
inline constexpr std::size_t header_bytes = std::size_t(32) << 10;
/// So much of what each connection keeps of heads, trailers, extensions and requests sent ahead
/// does not count as memory of requests (request_memory_bytes): an ordinary head never waits for
/// others, and `connections` of them are 16 MiB.
inline constexpr std::size_t head_free_bytes = std::size_t(16) << 10;
/// All requests together may hold so much of what clients sent: heads, bodies with their framing,
/// parsed JSON, prompts (--max-request-memory); a request beyond it is told 503.
inline constexpr std::size_t request_memory_bytes = std::size_t(512) << 20;
/// The log-probabilities of a prompt count as well: so much for each of a token and of its
/// alternatives.
inline constexpr std::size_t score_bytes = 128;
/// After so much of that was given back, the allocator gives it to the system.
inline constexpr std::size_t trim_bytes = std::size_t(64) << 20;
/// So many connections are open at once (--max-connections); as many again are told 503, and
/// further ones just closed.
inline constexpr int connections = 1024;
/// `plan` refuses a longer trace.
inline constexpr std::size_t trace_bytes = std::size_t(2) << 30;
/// More deeply nested JSON is answered 400.
inline constexpr int json_depth_max = 64;
/// Parsed JSON begins with so much of that memory, and takes more as it needs it.
inline constexpr std::size_t json_block_bytes = std::size_t(4) << 10;
/// More answers of an HTTP request, prompts times n, are answered 400.
inline constexpr int choices_max = 128;
/// A logit_bias is at most this, either way; larger ones are refused, by either door (-infinity,
/// which bans a token, can be said by gRPC only).
inline constexpr float logit_bias_max = 100;
/// A conversation of more messages is answered 400.
inline constexpr int messages_max = 4096;
/// More functions of a chat's request, longer schemas together or a longer name are answered 400.
inline constexpr std::size_t tools_max = 128;
inline constexpr std::size_t tools_bytes_max = std::size_t(256) << 10;
inline constexpr std::size_t tool_name_bytes_max = 64;
/// A longer X-Request-Id of a client is replaced by one of ours.
inline constexpr std::size_t request_id_bytes = 128;
/// A request with a longer cache_salt is answered 400.
inline constexpr std::size_t cache_salt_bytes = 512;

/// A request's headers, and then its body, must have come by then; else 408. TLS handshakes too.
inline constexpr std::chrono::seconds receive_time = 30s;
/// A connection without a request is closed after this.
inline constexpr std::chrono::seconds idle_time = 75s;
/// A client that takes nothing of its answer for this long is cut off, its requests cancelled.
inline constexpr std::chrono::seconds write_time = 30s;
/// An answer takes no longer than this (--request-timeout); else 504.
inline constexpr std::chrono::seconds request_time = 600s;
/// The headers of a stream go out after this, whether there is a token or not: what fails until
/// then has a status of its own.
inline constexpr std::chrono::seconds stream_head_time = 1s;
/// After so much silence (--awake-interval) a stream gets a comment, and a whole answer, once it
/// has taken so many of them, its status and blanks: proxies cut what is silent for a minute.
inline constexpr std::chrono::seconds awake_interval = 5s;
inline constexpr int silent_intervals = 3;
/// What runs may go on for this long after SIGTERM (--drain-timeout); then it is told 503, and
/// connections are closed after the second time.
inline constexpr std::chrono::seconds drain_time = 30s;
inline constexpr std::chrono::seconds farewell_time = 2s;
/// The rest of a refused request is read and thrown away for so long, or so much of it, before its
/// connection is closed, so that the refusal is not lost.
inline constexpr std::chrono::seconds linger_time = 2s;
inline constexpr std::size_t linger_bytes = std::size_t(1) << 20;
/// The server pauses for so long after the system had no more file descriptors for a connection,
/// and between two lines of the log about that.
inline constexpr std::chrono::milliseconds accept_pause = 100ms;
inline constexpr std::chrono::seconds accept_log_pause = 60s;

/// So much of what a client sends while its answer is under way (pipelined requests) is read ahead,
/// and no more.
inline constexpr std::size_t ahead_bytes = std::size_t(64) << 10;
/// Streams are written to in beats of this, together: nobody sees events closer, and each write
/// costs both sides a wake-up. First tokens do not wait. With more answers than `busy_answers`
/// under way the beat slows down as they grow, up to the second.
inline constexpr std::chrono::milliseconds write_beat = 4ms;
inline constexpr std::chrono::milliseconds write_beat_max = 16ms;
inline constexpr int busy_answers = 8;
/// Server-sent events are written at once up to so many bytes.
inline constexpr std::size_t events_bytes = std::size_t(64) << 10;
/// So many read /v1/timeline at once; more are told 503. Each gets an event in such intervals, with
/// so many of the newest spans of each engine's lanes; the others are counted as lost. Where
/// nothing happens events are rarer.
inline constexpr int timeline_readers = 8;
inline constexpr std::chrono::milliseconds timeline_beat = 100ms;
inline constexpr std::chrono::seconds timeline_rest = 1s;
inline constexpr std::size_t timeline_spans = 512;
/// A gRPC connection has so many calls at a time besides as many as answers may be under way: who
/// asks for more waits on its own side.
inline constexpr int other_calls = 64;
/// A gRPC call with more metadata is refused, and its connection may be closed.
inline constexpr int metadata_bytes = 8 << 10;
/// The system keeps so much of an answer that a client does not take; the rest stays in the engine.
inline constexpr std::size_t send_bytes = std::size_t(128) << 10;
/// Bodies and texts longer than this are parsed, rendered and encoded aside, and what is longer
/// than the second size on a thread for which nobody with less waits.
inline constexpr std::size_t encode_here_bytes = std::size_t(16) << 10;
inline constexpr std::size_t aside_short_bytes = std::size_t(256) << 10;
/// So much of a long text is encoded first to see whether all of it may fit; the next pieces are
/// four times as long each.
inline constexpr std::size_t encode_piece_bytes = std::size_t(64) << 10;
/// So many lines of the log wait to be written; then the oldest are lost rather than a request held
/// up.
inline constexpr std::size_t log_lines = 8192;

// These are bounds of `bench serve`, the client.

/// A run has so many requests unless --num-prompts says otherwise.
inline constexpr int load_requests = 100;
/// A connection is there within this time, TLS included, or its request has failed.
inline constexpr std::chrono::seconds connect_time = 10s;
/// A server that sends nothing of an answer for this long has failed it.
inline constexpr std::chrono::seconds silence_time = 600s;
/// So much is kept of an answer that is no stream (a list of models, a refusal), and of a line of
/// one that is.
inline constexpr std::size_t answer_bytes = std::size_t(16) << 20;
/// A count of tokens or characters that a server reports beyond this is none.
inline constexpr int reported_count = 1'000'000'000;
/// A server's metrics are looked at in such intervals.
inline constexpr std::chrono::seconds metrics_pause = 1s;

} // namespace paceline::apps::limits
