// The engine: open two models, submit requests, read events.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/drafter.hpp"
#include "paceline/error.hpp"
#include "paceline/event.hpp"
#include "paceline/request.hpp"
#include "paceline/stream.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

enum class NumberFormat { automatic, f32, f16, bf16 };

/// How the target reads prompts. `fast` multiplies by NVIDIA's cuBLASLt, on cuda devices alone and
/// with weights of bf16: it rounds otherwise than `invariant`, so tokens may differ from its where
/// two are nearly equal, and are as reproducible among themselves.
enum class Prefill { invariant, fast };

/// What happens when a part of the engine dies or stands still (docs/reliability.md).
struct FaultOptions {
  /// Before a part that died is started again: at first, and at most; doubled each time.
  std::chrono::milliseconds restart_pause{1};
  std::chrono::milliseconds restart_pause_max{2000};
  /// Restarts of one part. One more, and a draft is left out, a target moves to its reserve; any
  /// other part ends the engine.
  int restarts_max = 100;
  /// A part that ran this long has nothing to answer for: pause and count begin anew.
  std::chrono::milliseconds restarts_forgotten{60'000};
  /// Times a request is recomputed without a new token before the target moves to its reserve or,
  /// without one, the request fails as `unavailable`.
  int rebuilds_max = 5;
  /// A lane stands still when a step has taken this long, and 50 times as long as steps did: it is
  /// abandoned, and another one opened. At shutdown no lane is waited for any longer. 0: for ever.
  std::chrono::milliseconds stall_patience{10'000};
};

struct EngineOptions {
  /// Folders of Hugging Face checkpoints; "demo" is the built-in pair's model of that role.
  std::string target = "demo";
  /// What drafts: a model; "suffix" or "ngram", which look up how the text went on before and need
  /// no model (docs/drafts.md); "none" or empty: nothing, and every request runs plain. "auto": the
  /// demo pair's draft for the demo target, else "suffix".
  std::string draft = "auto";
  std::shared_ptr<Drafter> drafter; ///< Drafts in place of `draft` when set.
  /// What "suffix" may remember: texts under way, and recent outputs.
  std::size_t draft_memory_bytes = std::size_t(64) << 20;

  std::string device = "cpu"; ///< "cpu", "cpu:0-3", "cuda:0", "sim:<profile>"
  std::string draft_device;   ///< Empty: chosen for `device`.
  /// Where the target goes on, with what was committed, when `device` keeps failing; its weights
  /// are there from the start. Empty: nowhere, and requests end with an error.
  std::string reserve_device;
  int threads = 0; ///< Of the target's CPU lane; 0: the physical cores.
  NumberFormat dtype = NumberFormat::automatic;

  int max_model_len = 0;           ///< Tokens of context; 0: what the target was trained for.
  std::size_t kv_memory_bytes = 0; ///< Draft and target together; 0: chosen from free memory.
  int page_tokens = 16;            ///< Token slots per KV page.
  int max_num_seqs = 16;           ///< Sequences decoded in one batch.
  int max_waiting = 256;           ///< Admission queue; a request beyond it is refused.
  int prefill_chunk = 512;         ///< Prompt tokens per target step, over all sequences.
  Prefill prefill = Prefill::invariant;

  SpeculationMode speculation = SpeculationMode::automatic;
  std::optional<int> window; ///< Fixed K; none: adapted.
  Lookahead lookahead = Lookahead::automatic;
  int fork_rows = 15; ///< Forks that one pass of the draft may advance, over all sequences.

  FaultOptions faults;

  /// Run on a virtual clock: time passes only as devices and timers say (`sim` devices).
  /// The engine then works inside `Stream::next` on the caller's thread, deterministically.
  bool virtual_time = false;
  std::uint64_t schedule_seed = 0; ///< Virtual time only: chooses among runnable messages.

  std::string trace_file; ///< Chrome trace format; written at shutdown. Empty: none.
  /// Called from `open` while it works: what, and how far (0 to 1).
  std::function<void(const std::string&, double)> progress;
};

/// What an engine runs, for `inspect`, logs and JSON.
struct ModelInfo {
  std::string name;         ///< Folder or hub id.
  std::string architecture; ///< "LlamaForCausalLM"
  std::uint64_t parameters = 0;
  std::size_t weight_bytes = 0;
  std::string dtype;  ///< "bf16"
  std::string device; ///< "cpu:0-1"
  std::string kernel; ///< "amx", "highway", "scalar", ...
  Prefill prefill = Prefill::invariant;
  int vocabulary = 0;
  int max_model_len = 0;
};

/// A snapshot; counters since the engine opened.
struct Metrics {
  int running = 0;
  int waiting = 0;
  std::uint64_t finished = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t drafted = 0; ///< Tokens, those of forks included:
  std::uint64_t forked = 0;  ///< rows of forks in passes of the draft.
  std::uint64_t passes_behind =
      0; ///< Of the draft, ready on its device before the one at work ended.
  std::uint64_t judged = 0;
  std::uint64_t accepted = 0;
  std::vector<std::uint64_t> accepted_by_position; ///< Index 0: first token of a window.
  std::uint64_t windows = 0;        ///< Windows that were judged, one sequence's each,
  std::uint64_t window_tokens = 0;  ///< and the tokens in them, those behind a rejection too.
  std::uint64_t rounds = 0;         ///< Target steps that judged or drew tokens.
  std::uint64_t lookahead_hits = 0; ///< Windows that were ready after a full acceptance,
  std::uint64_t fork_hits = 0;      ///< and after a rejection.
  std::uint64_t lookahead_rounds = 0;
  std::uint64_t armed_steps = 0; ///< Target steps that the lane began without being told.
  std::uint64_t preemptions = 0;
  std::uint64_t restarts = 0;  ///< Parts that died and were started again by the supervisor.
  std::uint64_t rebuilds = 0;  ///< Sequences recomputed from their tokens after a fault.
  std::uint64_t stalls = 0;    ///< Lanes that stood still and were abandoned.
  bool draft_left_out = false; ///< It kept failing, or lied: requests decode plainly from then on.
  std::uint64_t drafter_failures = 0; ///< Calls of a Drafter that threw or gave what cannot be.
  bool target_moved = false;          ///< Its device kept failing: it goes on on the reserve.
  std::uint64_t messages = 0;         ///< Messages between actors, lane completions included.
  double target_busy_seconds = 0;
  double draft_busy_seconds = 0;
  double overlapped_seconds = 0;   ///< Drafting time that lay under target time.
  double decode_round_seconds = 0; ///< Sum over decode rounds, batch sent to verdict applied.
  double decode_lane_seconds = 0;  ///< Lane time within those rounds (draft exposed + target).
  std::size_t kv_pages_total = 0;
  std::size_t kv_pages_used = 0;
  std::size_t kv_pages_quarantined = 0;
};

/// Threads: every member may be called from any thread (with `virtual_time`: from one).
class Engine {
public:
  static Result<Engine> open(EngineOptions options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  /// Cancels what runs and waits for the end.
  ~Engine();

  Result<Stream> submit(const Request& request);
  /// submit, and wait for the end.
  Result<Completion> complete(const Request& request);

  /// add_special: with what the checkpoint puts before a text (such as a BOS).
  std::vector<TokenId> tokenize(const std::string& text, bool add_special = true) const;
  std::string detokenize(const std::vector<TokenId>& tokens) const;
  /// One token's bytes inside a text: may be part of a UTF-8 character; none of a special token.
  std::string token_bytes(TokenId token) const;

  /// A conversation as the target's chat template writes it (docs/terminal.md says what a
  /// checkpoint without one gets); to be tokenized without add_special. add_generation_prompt: with
  /// what opens the answer. variables: what the template may name besides (Qwen 3's
  /// enable_thinking). Errors: what the template refuses, or what of it is not supported.
  Result<std::string> render_chat(const std::vector<ChatMessage>& messages,
                                  bool add_generation_prompt = true,
                                  const TemplateVariables& variables = {}) const;
  /// Texts that end an answer where the chat format has no token for that; for Request::stop.
  std::vector<std::string> chat_stops() const;

  ModelInfo target() const; ///< Where it is now.
  std::optional<ModelInfo> draft() const;
  Metrics metrics() const;

  /// Refuses new requests, lets running ones finish for `drain`, cancels the rest. Always ends.
  /// Errors: the trace could not be written.
  Result<void> shutdown(std::chrono::milliseconds drain = std::chrono::seconds(5));

  class Impl;

private:
  explicit Engine(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

} // namespace paceline
