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

/// How the target reads prompts. `fast` multiplies by NVIDIA's cuBLASLt, on cuda devices alone and
/// with weights of bf16: it rounds otherwise than `invariant`, so tokens may differ from its where
/// two are nearly equal, and are as reproducible among themselves.
enum class Prefill { invariant, fast };

/// Whose request is taken up first, of those that wait, and gives its pages up last.
enum class SchedulingPolicy {
  fcfs,     ///< Who came first; of several clients (Request::client) the one served least.
  priority, ///< By Request::priority; a step of it is worth ten seconds of waiting.
  deadline, ///< Who has to end first (Request::deadline).
};

/// Which rows a step of the target has.
enum class Batching {
  hybrid,        ///< All running streams in every step, prompts in what rows are left.
  prefill_first, ///< Prompts before any stream goes on.
  request,       ///< A batch runs to its end before the next one begins.
};

/// How much it matters to whoever runs an engine.
enum class LogLevel {
  info,    ///< Good to know, such as that what was wrong is right again.
  warning, ///< Requests are answered, but not as they were meant to be.
  error,   ///< A part of the engine failed.
};

/// What happens when a part of the engine dies or stands still (docs/reliability.md).
struct FaultOptions {
  /// Before a part that died is started again: at first, and at most; doubled each time.
  std::chrono::milliseconds restart_pause{1};
  std::chrono::milliseconds restart_pause_max{2000};
  /// Restarts of one part. One more, and a draft is disabled, a target moves to its standby; any
  /// other part ends the engine.
  int restarts_max = 100;
  /// A part that ran this long has nothing to answer for: pause and count begin anew.
  std::chrono::milliseconds restarts_forgotten{60'000};
  /// Times a request is recomputed without a new token before the target moves to its standby or,
  /// without one, the request fails as `unavailable`.
  int recomputations_max = 5;
  /// A lane stands still when a step has taken this long, and 50 times as long as steps did: it is
  /// abandoned, and another one opened. At shutdown no lane is waited for any longer. 0: for ever.
  std::chrono::milliseconds stall_patience{10'000};
  /// Silence after which a node (EngineOptions::draft_device, devices) counts as gone.
  std::chrono::milliseconds heartbeat{1000};
  /// How long requests wait for a node that has a stage of the target and is gone. Those that have
  /// waited so long fail as `unavailable`, and so do further ones until it is back.
  std::chrono::milliseconds stage_patience{30'000};
};

/// PEM files with which two machines know each other (docs/machines.md).
struct NodeTls {
  std::string certificate{}; ///< Of this machine, with its chain.
  std::string key{};         ///< The certificate's.
  std::string authority{};   ///< Who signs the certificates of both.
};

struct EngineOptions {
  /// Folders of Hugging Face checkpoints; "demo" is the built-in pair's model of that role.
  std::string target = "demo";
  /// A file whose chat template goes before the target's own. Empty: the target's.
  std::string chat_template{};
  /// What drafts: a model; "self:mxfp4" (or another microscaling format): the target itself with
  /// its blocks in that format; "eagle3:DIR": an EAGLE-3 head on the target; "suffix" or "ngram",
  /// which look up how the text went on before and need no model (docs/drafts.md); "none" or an
  /// empty list: nothing, and every request runs plain. "auto": the demo pair's draft for the demo
  /// target, else "suffix". "suffix" and a model: both, the look-up where its matches say more than
  /// the model would, and alone where the model does not pay.
  std::vector<std::string> drafters = {"auto"};
  std::shared_ptr<Drafter> custom_drafter{}; ///< Drafts in place of `drafters` when set.
  /// What "suffix" may remember: texts under way, and recent outputs.
  std::size_t draft_memory_bytes = std::size_t(64) << 20;

  /// Where the target is: "cpu", "cpu:0-3", "cuda:0", "sim:<profile>". On several it is divided by
  /// layers, a stage on each or on each `tensor_parallel_size`, in this order (docs/pipeline.md);
  /// behind the first also on nodes, "node://HOST:PORT/cpu:0" (docs/machines.md).
  std::vector<std::string> devices = {"cpu"};
  /// Stages; 0: as many as there are devices, or sets of `tensor_parallel_size` of them.
  int pipeline_parallel_size = 0;
  /// Devices that work on each layer together, a part of its heads and feed-forward units each: the
  /// shards of a stage, one behind the other in `devices` (docs/pipeline.md). Part of the numeric
  /// setting: other numbers of shards give other last bits.
  int tensor_parallel_size = 1;
  /// Layers of each stage; empty: so that the stage that reads the most weights reads the least.
  std::vector<int> stage_layers{};
  std::string draft_device{}; ///< Empty: chosen for `devices`. "node://HOST:PORT/cpu:0": a node's.
  NodeTls node_tls{};         ///< For nodes on other machines; empty: there are none.
  /// Hidden states on their way to a stage on a node and back. f32: as they are inside a pass.
  /// bf16: half the bytes, each number rounded; part of the numeric setting, with the layers where
  /// rows cross: logits and now and then a token differ from those of f32, alike in every mode.
  NumberFormat node_rows = NumberFormat::f32;
  /// Tokens of a draft's distribution that cross from a node, with verification by `rejection`:
  /// it draws from these alone; 0: all.
  int draft_top_k = 64;
  /// Where the target goes on, with what was committed, when its device keeps failing; its weights
  /// are there from the start. Empty: nowhere, and requests end with an error. For stages on nodes
  /// another node, on which such a stage goes on.
  std::string reserve_device{};
  int threads = 0; ///< Of the target's CPU lane; 0: the physical cores.
  NumberFormat dtype = NumberFormat::automatic;
  /// A microscaling format that the linear layers of the target's blocks are quantized to while
  /// they are loaded; none: they stay as `dtype` says, like everything else.
  std::optional<WeightFormat> weights{};
  std::optional<WeightFormat> draft_weights{};     ///< The same of the draft model.
  std::optional<WeightFormat> head_weights{};      ///< The same of both models' output heads.
  ScaleChoice weight_scales = ScaleChoice::search; ///< Of all that is quantized.

  /// Of each device: weights, pages and drafts (which count where the last stage is) together;
  /// pages get what the others leave. 0: no bound but kv_memory_bytes.
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
  /// without one, where more would hardly be faster.
  int row_budget = 0;
  /// Prompts are read in steps that take no longer than this while streams run; 0: no objective.
  std::chrono::milliseconds time_between_tokens{0};

  SpeculationMode speculation = SpeculationMode::automatic;
  std::optional<int> window{}; ///< Fixed K; none: adapted.
  Lookahead lookahead = Lookahead::automatic;
  int fork_rows = 15; ///< Most forks of one sequence in a pass of the draft; all have at most 64.

  FaultOptions faults{};

  /// Run on a virtual clock: time passes only as devices and timers say (`sim` devices).
  /// The engine then works inside `Stream::next` on the caller's thread, deterministically; there
  /// the functions given to streams run, too.
  bool virtual_time = false;
  std::uint64_t schedule_seed = 0; ///< Virtual time only: chooses among runnable messages.

  std::string trace_file{}; ///< Chrome trace format; written at shutdown. Empty: none.
  /// Called from `open` while it works: what, and how far (0 to 1).
  std::function<void(const std::string&, double)> progress{};
  /// Called with what the engine has to say meanwhile, one sentence without a line end: that a node
  /// is lost or back, that the target moves, that a part died. From any of its threads, several at
  /// a time; it must not wait for the engine, and what it throws is dropped. Empty: standard error.
  std::function<void(LogLevel, const std::string&)> log{};
  /// Asked between any two layers that are loaded: `open` then gives all back, and ends with
  /// `cancelled`.
  std::stop_token stop{};
};

/// What one of several stages has of a model.
struct StageInfo {
  std::string device{};
  std::string kernel{};
  int layers = 0;
  /// With the embedding in the first stage, and the head in the last.
  std::size_t weight_bytes = 0;
  std::string crossing_rows{}; ///< EngineOptions::node_rows, if it is on a node; else empty.
};

/// What an engine runs, for `inspect`, logs and JSON.
struct ModelInfo {
  std::string name{};         ///< Folder or hub id.
  std::string architecture{}; ///< "LlamaForCausalLM"
  std::uint64_t parameters = 0;
  std::size_t weight_bytes = 0;
  std::size_t shared_bytes = 0; ///< Of these, what a draft out of the target itself has of it.
  std::string dtype{};          ///< Of what is not quantized: "bf16"
  std::string weights{};        ///< Of the linear layers of its blocks: "mxfp6"; else as dtype.
  std::string head_weights{};   ///< Of its output head.
  /// "cpu:0-1"; of several stages "cpu:0+cpu:1", of a stage in shards "cpu:0|cpu:1"
  std::string device{};
  std::string kernel{};            ///< "amx", "highway", "scalar", ...
  std::vector<StageInfo> stages{}; ///< In the order in which a pass takes them; empty: one.
  std::string crossing_rows{};     ///< As StageInfo::crossing_rows, of a stage.
  int shards = 1;                  ///< Devices that each stage is divided among.
  int layers = 0;                  ///< 0: it has none (a scripted model).
  Prefill prefill = Prefill::invariant;
  int vocabulary = 0;
  int max_model_len = 0;
  /// Options of its generation_config.json that would change which tokens come, and are not obeyed.
  std::vector<std::string> not_obeyed;
};

/// A snapshot. Counters count since the engine opened.
struct Metrics {
  /// Requests that are decoded or read now.
  int running = 0;
  /// Requests that are accepted and not yet running.
  int waiting = 0;
  /// Requests of the engine's full length (ModelInfo::max_model_len of the target's) that the KV
  /// caches have room for at a time, up to EngineOptions::max_num_seqs: of so many none ever waits
  /// for memory or is preempted, however long they become. Shorter ones run in larger numbers.
  int full_length_requests = 0;
  /// Requests that ended, however they did.
  std::uint64_t finished = 0;
  /// Tokens of the prompts of all accepted requests.
  std::uint64_t prompt_tokens = 0;
  /// Tokens committed to outputs.
  std::uint64_t generated_tokens = 0;
  /// Tokens that the draft drew, those of forks included.
  std::uint64_t drafted = 0;
  /// Of these, tokens that were drawn as rows of forks.
  std::uint64_t forked = 0;
  /// Passes of the draft that stood ready on its device before the one at work ended.
  std::uint64_t passes_behind = 0;
  /// Drafted tokens that the target judged: accepted ones and first rejections.
  std::uint64_t judged = 0;
  /// Drafted tokens that the target accepted.
  std::uint64_t accepted = 0;
  /// Judged and accepted tokens of each drafter.
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
  /// Pre-enqueued target steps that the lane began by itself, before any actor had heard of the
  /// hit.
  std::uint64_t pre_enqueued_steps = 0;
  /// Of those, over stages: began before a rejection was known, and went on from it as a fork.
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
  /// Times the draft was waited for in vain; then nobody waits for it for a while.
  std::uint64_t draft_late = 0;
  /// Sequences that a late draft held up; then nothing is drafted for a while.
  std::uint64_t draft_pauses = 0;
  /// The draft kept failing or gave a token that its q row cannot give, and is used no more.
  bool draft_disabled = false;
  /// Calls of a Drafter that threw or gave what cannot be.
  std::uint64_t drafter_failures = 0;
  /// The target's device kept failing, and the target goes on on `reserve_device`.
  bool target_moved = false;
  /// How far the cost model's predictions are from what steps of the target take: the median of the
  /// last errors, as a share; 0 before there are enough.
  double step_cost_error = 0;
  /// Messages between actors, lane completions included.
  std::uint64_t messages = 0;
  /// Time in which the target's lane worked.
  double target_busy_seconds = 0;
  /// Time in which the draft's lane worked.
  double draft_busy_seconds = 0;
  /// Drafting time that lay under target time.
  double overlapped_seconds = 0;
  /// Sum over decode rounds, each from the batch being sent to its verdict being applied.
  double decode_round_seconds = 0;
  /// Lane time within those rounds: the target's, and the draft's where the target waited for it.
  double decode_lane_seconds = 0;
  /// KV pages of draft and target together.
  std::size_t kv_pages_total = 0;
  /// KV pages that requests hold; what only the prefix cache keeps does not count.
  std::size_t kv_pages_used = 0;
  /// KV pages that nobody may use before the last step that names them has retired.
  std::size_t kv_pages_quarantined = 0;
};

/// Threads: every member may be called from any thread (with `virtual_time`: from one), and from
/// functions given to streams.
///
/// Where the caller's thread has no memory left, members throw std::bad_alloc: then nothing has
/// happened, and they may be called again.
///
/// An engine belongs to the process that opened it. In a forked child `submit` and `complete` are
/// refused, `metrics` is empty, and `shutdown` and the end of the object do nothing: what the
/// engine held there stays until the process ends. Fork before an engine is opened, or run a
/// program in the child.
class Engine {
public:
  /// Errors: an option that cannot be (it is named); what of the models is missing, damaged or
  /// unknown; `cancelled` (EngineOptions::stop).
  static Result<Engine> open(EngineOptions options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  /// Cancels what runs and waits for the end.
  ~Engine();

  /// Errors: the request is invalid; `overloaded`: as many are open as the engine takes;
  /// `unavailable`: it is shut down.
  Result<Stream> submit(const Request& request);
  /// submit, and wait for the end. Errors: as submit; what fails later is in Completion::end, with
  /// the text that had come.
  Result<Completion> complete(const Request& request);

  /// add_special: with what the checkpoint puts before a text (such as a BOS). parse_special:
  /// special tokens that the text spells are those; else they are text.
  std::vector<TokenId> tokenize(const std::string& text, bool add_special = true,
                                bool parse_special = false) const;
  std::string detokenize(const std::vector<TokenId>& tokens) const;
  /// Whether answers can be held to the form; it is compiled here, which may take some
  /// milliseconds, and not again by the request that comes next. Errors: as those of `submit`.
  Result<void> check(const Constraint& form) const;
  /// One token's bytes inside a text: may be part of a UTF-8 character. skip_special: a special
  /// token has none.
  std::string token_bytes(TokenId token, bool skip_special = true) const;
  /// A token as log-probabilities name it: its text; a special one's name; "bytes:\xf0\x9f", as
  /// OpenAI writes them, where its bytes are no whole characters; "token_id:7" where it has none.
  std::string token_name(TokenId token) const;

  /// A conversation as the target's chat template writes it (docs/terminal.md says what a
  /// checkpoint without one gets), to look at. Errors: what the template refuses, or what of it is
  /// not supported.
  Result<std::string> render_chat(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& how = {}) const;
  /// The same as tokens, for Request::prompt_tokens: special tokens are the template's alone, what
  /// messages spell is text.
  Result<std::vector<TokenId>> chat_tokens(const std::vector<ChatMessage>& messages,
                                           const ChatOptions& how = {}) const;
  /// Texts that end an answer where the chat format has no token for that; for Request::stop.
  std::vector<std::string> chat_stops() const;

  ModelInfo target() const;                     ///< Where it is now.
  std::optional<ModelInfo> draft_model() const; ///< None: no model drafts.
  /// What drafts, for Request::drafter: "suffix" or "ngram" before "model" (any that has weights),
  /// or "drafter" (EngineOptions::custom_drafter). Empty: nothing, and every request runs plain.
  const std::vector<std::string>& drafters() const;
  Metrics metrics() const;

  /// Time by the engine's clock, since it opened.
  std::chrono::nanoseconds now() const;
  /// With `virtual_time`: works until `reached`, which is asked between any two events, or until
  /// the clock says `until`; whether it was reached. For who has requests that come later: time
  /// passes here even while nothing is under way. Without, time passes by itself.
  bool run_until(const std::function<bool()>& reached, std::chrono::nanoseconds until);

  /// Refuses new requests, lets running ones finish for `drain` (at most a year), cancels the rest.
  /// Always ends, and waits for no function given to a stream. Errors: the trace could not be
  /// written.
  Result<void> shutdown(std::chrono::milliseconds drain = std::chrono::seconds(5));

  class Impl;

private:
  explicit Engine(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

} // namespace paceline
