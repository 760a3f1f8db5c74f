// The engine: open two models, submit requests, read events.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/drafter.hpp"
#include "paceline/error.hpp"
#include "paceline/event.hpp"
#include "paceline/request.hpp"
#include "paceline/stream.hpp"
#include "paceline/weight_format.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace paceline {

enum class NumberFormat { automatic, f32, f16, bf16 };

/// How the target reads prompts. `fast` multiplies by NVIDIA's cuBLASLt, only on cuda devices and
/// with weights of bf16. It rounds differently from `invariant`, so tokens may differ where two are
/// nearly equal; its own tokens are just as reproducible.
enum class Prefill { invariant, fast };

/// Which waiting request is started first, and is the last to lose its pages.
enum class SchedulingPolicy {
  fcfs,     ///< First come, first served; among clients (Request::client) the one served least.
  priority, ///< Orders by Request::priority; one step of it is worth ten seconds of waiting.
  deadline, ///< The earliest Request::deadline goes first.
};

/// Which rows a step of the target has.
enum class Batching {
  hybrid,        ///< All running streams in every step; prompts get the rows that are left.
  prefill_first, ///< Prompts before any stream goes on.
  request,       ///< A batch runs to its end before the next one begins.
};

/// How serious a log message is for whoever runs an engine.
enum class LogLevel {
  info,    ///< Good to know, such as that a problem is over.
  warning, ///< Requests are answered, but not as they were meant to be.
  error,   ///< A part of the engine failed.
};

/// What happens when a part of the engine dies or stands still (docs/reliability.md).
struct FaultOptions {
  /// Pause before a part that died is started again: the first, and the longest; it doubles each
  /// time.
  std::chrono::milliseconds restart_pause{1};
  std::chrono::milliseconds restart_pause_max{2000};
  /// Restarts of one part. After one more death a draft is disabled, and a target moves to its
  /// standby; any other part ends the engine.
  int restarts_max = 100;
  /// A part that ran for this long is taken for sound: its pause and its count begin anew.
  std::chrono::milliseconds restarts_forgotten{60'000};
  /// Times a request is recomputed without a new token. Then the target moves to its standby or, if
  /// there is none, the request fails as `unavailable`.
  int recomputations_max = 5;
  /// A lane counts as stalled when a step has taken this long, and 50 times as long as steps did:
  /// it is abandoned, and another one opened. Shutdown waits no longer than this for any lane. 0:
  /// for ever.
  std::chrono::milliseconds stall_patience{10'000};
  /// Silence after which a node (EngineOptions::draft_devices, devices) counts as gone.
  std::chrono::milliseconds heartbeat{1000};
  /// How long requests wait when a node that has a stage of the target is gone. Requests that have
  /// waited so long fail as `unavailable`, and so do further ones until the node is back.
  std::chrono::milliseconds stage_patience{30'000};
};

/// PEM files by which two machines authenticate each other (docs/machines.md).
struct NodeTls {
  std::string certificate{}; ///< Certificate of this machine, with its chain.
  std::string key{};         ///< Private key of the certificate.
  std::string authority{};   ///< Authority that signs the certificates of both machines.
};

struct EngineOptions {
  /// Folder of a Hugging Face checkpoint, a .gguf file, or "org/name[:variant]" as `paceline list`
  /// shows it; "demo" is the target of the built-in demo pair.
  std::string target = "demo";
  /// A file whose chat template replaces the target's own. Empty: the target's is used.
  std::string chat_template{};
  /// What drafts: a model; "self:mxfp4" (or another microscaling format): the target itself with
  /// its blocks in that format; "mtp": the block that the target's checkpoint brings to draft for
  /// it (multi-token prediction); "eagle3:DIR": an EAGLE-3 head on the target; "dflash:DIR": a
  /// DFlash drafter on it, which writes a block of tokens at once; "gemma4-assistant:DIR": the
  /// drafter that ships with a Gemma 4; "suffix" or "ngram", which look up how the text went on
  /// before and need no model (docs/drafts.md); "none" or an empty list: only the forms of answers.
  /// "auto": the demo pair's draft for the demo target, "mtp" where the checkpoint brings it, else
  /// "suffix". "suffix" and a model: both; the look-up drafts where its matches promise more than
  /// the model does, and alone where the model does not pay.
  std::vector<std::string> drafters = {"auto"};
  std::shared_ptr<Drafter> custom_drafter{}; ///< Drafts in place of `drafters` when set.
  /// Memory for "suffix", which holds the texts under way and recent outputs.
  std::size_t draft_memory_bytes = std::size_t(64) << 20;

  /// Devices of the target: "cpu", "cpu:0-3" (cores), "cuda:0", "cuda:0/16-" (multiprocessors),
  /// "sim:<profile>". Several devices divide it by layers, a stage on each one or on each
  /// `tensor_parallel_size` of them, in this order (docs/pipeline.md). All but the first may be on
  /// nodes, "node://HOST:PORT/cpu:0" (docs/machines.md).
  std::vector<std::string> devices = {"cpu"};
  /// Number of stages; 0: as many as there are devices, or sets of `tensor_parallel_size` of them.
  int pipeline_parallel_size = 0;
  /// Devices that work on each layer together, each on a part of its heads and feed-forward units:
  /// the shards of a stage, which follow each other in `devices` (docs/pipeline.md). Part of the
  /// numeric setting: another number of shards gives other last bits.
  int tensor_parallel_size = 1;
  /// Layers of each stage; empty: the most weights that any stage reads are as few as possible.
  std::vector<int> stage_layers{};
  /// Devices of the draft, as in `devices`; empty: one is chosen for these. Several devices, of one
  /// kind, divide a draft model: it has a stage on each, or shards of every layer. It has nothing
  /// to overlap with itself, so a further device gives it room, and seldom speed.
  std::vector<std::string> draft_devices{};
  int draft_pipeline_parallel_size = 0; ///< The draft's stages; 0: as many as there are devices.
  int draft_tensor_parallel_size = 1;   ///< The draft's shards: 1, or as many as devices.
  NodeTls node_tls{}; ///< Keys for nodes on other machines; empty: there are no such nodes.
  /// Format of hidden states on their way to a stage on a node and back. f32: as they are inside a
  /// pass. bf16: half the bytes, each number rounded; part of the numeric setting, with the layers
  /// where rows cross: logits and now and then a token differ from those of f32, alike in every
  /// mode.
  NumberFormat node_rows = NumberFormat::f32;
  /// How many tokens of a draft's distribution a node sends, for verification by `rejection`; the
  /// draft draws from these alone. 0: all.
  int draft_top_k = 64;
  /// Device on which the target goes on, with what was committed, when its own keeps failing; its
  /// weights are there from the start. Empty: none, and requests end with an error. If stages are
  /// on nodes, this is another node, on which such a stage goes on.
  std::string reserve_device{};
  int threads = 0; ///< Threads of the target's CPU lane; 0: the physical cores.
  NumberFormat dtype = NumberFormat::automatic;
  /// A microscaling format that the linear layers of the target's blocks are quantized to while
  /// they are loaded; none: they stay as `dtype` says, like everything else.
  std::optional<WeightFormat> weights{};
  std::optional<WeightFormat> draft_weights{};     ///< The same for the draft model.
  std::optional<WeightFormat> head_weights{};      ///< The same for both models' output heads.
  ScaleChoice weight_scales = ScaleChoice::search; ///< How all quantized weights find their scales.
  /// What rows of the target, and of the draft, are rounded to; the draft's changes no answer, but
  /// how many of its tokens are accepted. On CPUs alone.
  Activations activations = Activations::automatic;
  Activations draft_activations = Activations::automatic;
  /// What the KV caches of the target, and of a draft with weights, keep; the draft's changes no
  /// answer, but how many of its tokens are accepted.
  KvCacheDtype kv_cache_dtype = KvCacheDtype::automatic;
  KvCacheDtype draft_kv_cache_dtype = KvCacheDtype::automatic;

  /// Memory of each device for weights, pages and drafts (which count where the last stage is)
  /// together; pages get what the others leave. 0: no bound but kv_memory_bytes.
  std::size_t memory_bytes = 0;
  int max_model_len = 0;           ///< Tokens of context; 0: what the target was trained for.
  std::size_t kv_memory_bytes = 0; ///< Pages of draft and target, and the drafts' rows of q,
                                   ///< together; 0: chosen from free memory.
  int page_tokens = 16;            ///< Token slots per KV page.
  int max_num_seqs = 16;           ///< Sequences decoded in one batch.
  int max_waiting = 256;           ///< Admission queue; `submit` refuses a request beyond it.
  int prefill_chunk = 512;         ///< Prompt tokens per target step, over all sequences.
  Prefill prefill = Prefill::invariant;
  SchedulingPolicy scheduling = SchedulingPolicy::fcfs;
  Batching batching = Batching::hybrid;
  /// Rows of a step that has running streams and prompts; 0: chosen for `time_between_tokens` or,
  /// without that, so that more would hardly be faster.
  int row_budget = 0;
  /// Longest time of the steps that read prompts while streams run; 0: no objective.
  std::chrono::milliseconds time_between_tokens{0};

  SpeculationMode speculation = SpeculationMode::automatic;
  std::optional<int> window{}; ///< Fixed window length K; none: adapted.
  Lookahead lookahead = Lookahead::automatic;
  int fork_rows = 15; ///< Most forks of a sequence in a pass of the draft; all have at most 64.
  /// Rows of a target step beside each window, for tokens that may stand in place of the drafted
  /// ones (a token tree); at most 48, none: as many as pay. In `sync`, with a draft model or a
  /// head.
  std::optional<int> tree_rows{};

  FaultOptions faults{};

  /// Runs on a virtual clock: time passes only as devices and timers say (`sim` devices). The
  /// engine then works inside `Stream::next` on the caller's thread, deterministically; the
  /// functions given to streams run there, too.
  bool virtual_time = false;
  std::uint64_t schedule_seed = 0; ///< Chooses among runnable messages, with virtual time only.

  std::string trace_file{}; ///< Trace in Chrome's format, written at shutdown. Empty: none.
  /// Called by `open` while it works, with what is being done and how far it is (0 to 1).
  std::function<void(const std::string&, double)> progress{};
  /// Called with the engine's messages, each one sentence without a line end: that a node is lost
  /// or back, that the target moves, that a part died. Called from any of its threads, several at a
  /// time; it must not wait for the engine, and what it throws is dropped. Empty: standard error.
  std::function<void(LogLevel, const std::string&)> log{};
  /// Looked at between any two layers that are loaded: when a stop is requested, `open` releases
  /// everything and ends with `cancelled`.
  std::stop_token stop{};
};

/// The part of a model that one of several stages has.
struct StageInfo {
  std::string device{};
  std::string kernel{};
  int layers = 0;
  /// Bytes with the embedding in the first stage, and with the head in the last.
  std::size_t weight_bytes = 0;
  std::string crossing_rows{}; ///< EngineOptions::node_rows, if it is on a node; else empty.
};

/// What an engine runs, for `inspect`, logs and JSON.
struct ModelInfo {
  std::string name{};         ///< Folder or hub id.
  std::string architecture{}; ///< "LlamaForCausalLM"
  std::uint64_t parameters = 0;
  std::size_t weight_bytes = 0;
  std::size_t shared_bytes = 0; ///< The part of these bytes that a draft shares with the target.
  std::string dtype{};          ///< Format of what is not quantized: "bf16"
  std::string weights{}; ///< Format of the linear layers of its blocks: "mxfp6"; else as dtype.
  std::string head_weights{}; ///< Format of its output head.
  std::string activations{};  ///< "int8" if rows are rounded to 8 bits before products; else empty.
  std::string kv_cache_dtype{}; ///< "int8" if keys and values are kept in 8 bits; else empty.
  /// "cpu:0-1"; for several stages "cpu:0+cpu:1", for a stage in shards "cpu:0
  /// cpu:1"
  std::string device{};
  std::string kernel{};            ///< "amx", "highway", "scalar", ...
  std::vector<StageInfo> stages{}; ///< Stages in the order in which a pass takes them; empty: one.
  std::string crossing_rows{};     ///< Same as StageInfo::crossing_rows, of a stage.
  int shards = 1;                  ///< Devices that each stage is divided among.
  int layers = 0;                  ///< 0: it has none (a scripted model).
  Prefill prefill = Prefill::invariant;
  int vocabulary = 0;
  int max_model_len = 0;
  /// Options of its generation_config.json that would change the tokens, and are not obeyed.
  std::vector<std::string> not_obeyed;
};

/// A snapshot. Counters count since the engine opened.
struct Metrics {
  /// Requests that are decoded or read now.
  int running = 0;
  /// Requests that are accepted and not yet running.
  int waiting = 0;
  /// Requests of the engine's full length (ModelInfo::max_model_len of the target) that the KV
  /// caches have room for at a time, up to EngineOptions::max_num_seqs. That many requests never
  /// wait for memory and are never preempted, however long they become. More of them run if they
  /// are shorter.
  int full_length_requests = 0;
  /// Requests that ended, however they did.
  std::uint64_t finished = 0;
  /// Tokens of the prompts of all accepted requests.
  std::uint64_t prompt_tokens = 0;
  /// Tokens committed to outputs.
  std::uint64_t generated_tokens = 0;
  /// Tokens that the draft drew, those of forks included.
  std::uint64_t drafted = 0;
  /// Drafted tokens that were drawn as rows of forks.
  std::uint64_t forked = 0;
  /// Passes of the draft that stood ready on its device before the one at work ended.
  std::uint64_t passes_behind = 0;
  /// Drafted tokens that the target judged: accepted ones and first rejections.
  std::uint64_t judged = 0;
  /// Drafted tokens that the target accepted.
  std::uint64_t accepted = 0;
  /// Judged and accepted tokens of each drafter; "form" comes last where forms of answers draft.
  std::vector<DrafterCounts> drafters{};
  /// Accepted tokens by their place in the window; index 0 is a window's first token.
  std::vector<std::uint64_t> accepted_by_position{};
  /// Windows that were judged, counted for each sequence.
  std::uint64_t windows = 0;
  /// Tokens in those windows, including the ones behind a rejection.
  std::uint64_t window_tokens = 0;
  /// Target steps that judged or drew tokens.
  std::uint64_t rounds = 0;
  /// Windows that were ready after a full acceptance.
  std::uint64_t lookahead_hits = 0;
  /// Windows that were ready after a rejection.
  std::uint64_t fork_hits = 0;
  /// Rounds of a sequence that had a lookahead to hit.
  std::uint64_t lookahead_rounds = 0;
  /// Rows of target steps for guesses beside windows, and the tokens that they brought.
  std::uint64_t tree_rows = 0;
  std::uint64_t tree_tokens = 0;
  /// Pre-enqueued target steps that the lane began by itself, before any actor had heard of the
  /// hit.
  std::uint64_t pre_enqueued_steps = 0;
  /// Pre-enqueued steps in a target of stages that began before a rejection was known, and went on
  /// from it as a fork.
  std::uint64_t fork_steps = 0;
  /// Times a sequence lost its pages to another one and was recomputed later.
  std::uint64_t preemptions = 0;
  /// Parts that died and were started again by the supervisor.
  std::uint64_t restarts = 0;
  /// Sequences recomputed from their tokens after a fault.
  std::uint64_t recomputations = 0;
  /// Lanes that stood still and were abandoned.
  std::uint64_t stalls = 0;
  /// Functions given to streams that threw something.
  std::uint64_t callback_failures = 0;
  /// Times the draft was waited for in vain; for a while afterwards nobody waits for it.
  std::uint64_t draft_late = 0;
  /// Sequences that a late draft held up; for a while afterwards nothing is drafted.
  std::uint64_t draft_pauses = 0;
  /// The draft kept failing or gave a token that its q row cannot give, and is not used any more.
  bool draft_disabled = false;
  /// Calls of a Drafter that threw or proposed something impossible.
  std::uint64_t drafter_failures = 0;
  /// The target's device kept failing, and the target now runs on `reserve_device`.
  bool target_moved = false;
  /// How far the cost model's predictions are from the times that steps of the target take: the
  /// median of the last errors, as a share; 0 before there are enough.
  double step_cost_error = 0;
  /// Messages between actors, lane completions included.
  std::uint64_t messages = 0;
  /// Time in which the target's lane worked.
  double target_busy_seconds = 0;
  /// Time in which the draft's lane worked.
  double draft_busy_seconds = 0;
  /// Time for which draft and target worked at once.
  double overlapped_seconds = 0;
  /// Sum over decode rounds of the time from sending the batch to applying its verdict.
  double decode_round_seconds = 0;
  /// Lane time within those rounds: the target's, and the draft's while the target waited for it.
  double decode_lane_seconds = 0;
  /// KV pages of draft and target together.
  std::size_t kv_pages_total = 0;
  /// KV pages that requests hold; those that only the prefix cache keeps do not count.
  std::size_t kv_pages_used = 0;
  /// KV pages that nobody may use until the last step that names them has retired.
  std::size_t kv_pages_quarantined = 0;
};

/// A piece of work that a lane has done.
struct LaneSpan {
  /// Name of the lane as in a trace: "target cpu:0-1"; of another machine's with that before it.
  std::string lane{};
  std::string step{};                ///< What it did: "forward", "verify", "draft".
  std::chrono::nanoseconds begin{0}; ///< By Engine::now.
  std::chrono::nanoseconds end{0};   ///< By Engine::now.
  /// The inside of a JSON object as in a trace (`"kind":"decode","rows":8`), or empty.
  std::string details{};
};

/// Sees what the lanes of an engine do while it exists; without one, lanes write nothing down. It
/// may outlive the engine. Threads: one at a time.
class LaneWatch {
public:
  class Impl;
  explicit LaneWatch(std::unique_ptr<Impl>);
  LaneWatch(LaneWatch&&) noexcept;
  LaneWatch& operator=(LaneWatch&&) noexcept;
  ~LaneWatch();

  /// Returns what has ended since the last call, by the order in which it was noticed. Who asks too
  /// seldom loses the oldest (base/limits.hpp says how many are kept).
  std::vector<LaneSpan> take();
  /// Returns how many spans were lost so far.
  std::uint64_t lost() const;

private:
  std::unique_ptr<Impl> impl_;
};

/// A target and its draft, ready to answer requests. Threads: every member may be called from any
/// thread (with `virtual_time`: from one), and from functions given to streams.
///
/// Members throw std::bad_alloc if the caller's thread has no memory left: then nothing has
/// happened, and they may be called again.
///
/// An engine belongs to the process that opened it. In a forked child `submit` and `complete` are
/// refused, `metrics` is empty, and `shutdown` and the destructor do nothing: what the engine holds
/// there stays until the process ends. Fork before an engine is opened, or run a program in the
/// child.
class Engine {
public:
  /// Loads the models and starts the engine. Errors: an impossible option (it is named); a part of
  /// a model that is missing, damaged or unknown; `cancelled` (EngineOptions::stop).
  static Result<Engine> open(EngineOptions options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  /// Cancels running requests and waits for their end.
  ~Engine();

  /// Starts a request. Errors: the request is invalid; `overloaded`: as many requests are open as
  /// the engine takes; `unavailable`: the engine is shut down.
  Result<Stream> submit(const Request& request);
  /// Submits a request and waits for its end. Errors: as for submit; a later failure is in
  /// Completion::end, with the text that had come.
  Result<Completion> complete(const Request& request);

  /// add_special: adds what the checkpoint puts before a text (such as a BOS). parse_special:
  /// special tokens that the text spells become those tokens; else they are text.
  std::vector<TokenId> tokenize(const std::string& text, bool add_special = true,
                                bool parse_special = false) const;
  std::string detokenize(const std::vector<TokenId>& tokens) const;
  /// Checks whether answers can be held to the form. It is compiled here, which may take some
  /// milliseconds, and not again by the request that comes next. Errors: as those of `submit`.
  Result<void> check(const Constraint& form) const;
  /// Returns the bytes of one token inside a text; they may be a part of a UTF-8 character.
  /// skip_special: a special token has none.
  std::string token_bytes(TokenId token, bool skip_special = true) const;
  /// Returns a token as log-probabilities name it: its text; the name of a special one;
  /// "bytes:\xf0\x9f", as OpenAI writes them, if its bytes are no whole characters; "token_id:7" if
  /// it has none.
  std::string token_name(TokenId token) const;

  /// Returns a conversation as the target's chat template writes it, to look at (docs/terminal.md
  /// says what a checkpoint without one gets). Errors: what the template refuses, or a part of it
  /// that is not supported.
  Result<std::string> render_chat(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& how = {}) const;
  /// Returns the same as tokens, for Request::prompt_tokens. Special tokens come from the template
  /// alone; in messages their names are text.
  Result<std::vector<TokenId>> chat_tokens(const std::vector<ChatMessage>& messages,
                                           const ChatOptions& how = {}) const;
  /// Returns texts that end an answer if the chat format has no token for that; for Request::stop.
  std::vector<std::string> chat_stops() const;
  /// Returns the source of the target's chat template.
  const std::string& chat_template() const;

  ModelInfo target() const;                     ///< The target where it is now.
  std::optional<ModelInfo> draft_model() const; ///< None: no model drafts.
  /// Names what drafts, for Request::drafter: "suffix" or "ngram" before "model" (any that has
  /// weights), or "drafter" (EngineOptions::custom_drafter). Empty: nothing drafts but the forms of
  /// answers, "form", which are not among these.
  const std::vector<std::string>& drafters() const;
  Metrics metrics() const;
  /// Begins to watch the lanes.
  LaneWatch watch_lanes() const;

  /// Time since the engine opened, by its clock.
  std::chrono::nanoseconds now() const;
  /// Works, with `virtual_time`, until `reached` (asked between any two events) is true, or until
  /// the clock says `until`. Returns whether `reached` was true. It serves callers whose requests
  /// come later: time passes here even while none is open. In real time it passes by itself.
  bool run_until(const std::function<bool()>& reached, std::chrono::nanoseconds until);

  /// Refuses new requests, lets running ones finish for `drain` (at most a year), cancels the rest.
  /// Always returns, and waits for no function given to a stream. Errors: the trace could not be
  /// written.
  Result<void> shutdown(std::chrono::milliseconds drain = std::chrono::seconds(5));

  class Impl;

private:
  explicit Engine(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

} // namespace paceline
