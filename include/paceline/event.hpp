// What a request streams back: deltas, then exactly one end.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace paceline {

/// Who produced a committed token.
enum class TokenSource : std::uint8_t {
  target,    ///< Drawn from the target (bonus, residual, or plain decoding).
  draft,     ///< Drafted and accepted.
  lookahead, ///< Drafted while the window before it was being verified, and accepted.
};

/// A token's log-probability. Engine::token_name and Engine::token_bytes give the text of the ids.
struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;                            ///< Natural logarithm.
  std::vector<std::pair<TokenId, float>> top{}; ///< Likeliest first.
};

/// Newly committed tokens. The text is whole UTF-8 characters; it may lag behind the tokens while a
/// character or a possible stop string is incomplete.
struct Delta {
  std::vector<TokenId> tokens{};
  std::vector<TokenSource> sources{}; ///< One per token.
  std::string text{};
  std::vector<TokenLogprob> logprobs{}; ///< One per token if asked for.
};

/// Log-probabilities of the prompt's tokens. If asked for, they come once, before the first Delta.
struct PromptLogprobs {
  std::vector<TokenId> tokens{};
  std::vector<TokenLogprob> logprobs{}; ///< logprobs[0] is meaningless (no token precedes it).
};

enum class FinishReason { stop, length, cancelled, deadline, error };

/// Counts of the tokens of one drafter.
struct DrafterCounts {
  std::string name{};       ///< A name that Engine::drafters gives, or "form".
  std::uint64_t judged = 0; ///< Accepted plus first rejections.
  std::uint64_t accepted = 0;

  double acceptance_rate() const { return judged ? double(accepted) / double(judged) : 0; }
};

/// Counts of one request's speculation. acceptance_rate = accepted / judged is Leviathan's a.
struct SpeculationStats {
  SpeculationMode mode = SpeculationMode::off; ///< The mode in use at the end.
  VerifyRule verify = VerifyRule::rejection;
  int window = 0; ///< Window length K in use at the end.
  std::uint64_t drafted = 0;
  std::uint64_t forked = 0; ///< Drafted tokens for outcomes that did not come true.
  std::uint64_t judged = 0; ///< Accepted plus first rejections.
  std::uint64_t accepted = 0;
  std::uint64_t rounds = 0;           ///< Target steps that committed tokens of this request.
  std::uint64_t lookahead_hits = 0;   ///< Next windows that were ready after a full acceptance.
  std::uint64_t fork_hits = 0;        ///< Next windows that were ready after a rejection.
  std::uint64_t lookahead_rounds = 0; ///< Rounds that had a lookahead to hit.
  std::uint64_t tree_tokens = 0;      ///< Tokens that guesses beside the windows brought.
  double overlap_ratio = 0;           ///< Share of drafting time that lay under target time.
  int draft_context_exceeded = 0; ///< Tokens that the draft model can read, if the request has more
                                  ///< and the target went on alone; else 0.
  bool draft_disabled = false;    ///< Same as Metrics::draft_disabled.
  /// A round judged less than its window, because the draft was late or away, or the step had no
  /// room: so where a window begins and ends depended on time.
  bool windows_cut = false;
  /// Calls of a Drafter that failed while the request was open.
  std::uint64_t drafter_failures = 0;
  /// One per drafter, in the order of Engine::drafters; "form" comes last where the form of the
  /// answer drafts.
  std::vector<DrafterCounts> drafters{};

  std::uint64_t discarded() const { return drafted > judged ? drafted - judged : 0; }
  double acceptance_rate() const { return judged ? double(accepted) / double(judged) : 0; }
  double lookahead_hit_rate() const {
    return lookahead_rounds ? double(lookahead_hits + fork_hits) / double(lookahead_rounds) : 0;
  }
};

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0; ///< Prompt tokens found in the prefix cache.
};

/// Durations in seconds, by the engine's clock.
struct Timing {
  double queue_seconds = 0; ///< Submission until the scheduler first gave it memory to run in.
  double time_to_first_token_seconds = 0;
  double decode_seconds = 0; ///< First token to last.
  double total_seconds = 0;
};

struct Finished {
  FinishReason reason = FinishReason::stop;
  std::optional<Error> error{}; ///< Set when reason is `error`.
  std::string stop_match{};     ///< The stop string found, if one ended the output.
  /// The token that ended the output, if one did: an end of text, or one of
  /// Request::stop_token_ids.
  std::optional<TokenId> stop_token{};
  std::uint64_t seed = 0; ///< The seed used; a drawn one is below 2^53, which JSON keeps exactly.
  Usage usage{};
  SpeculationStats speculation{};
  Timing timing{};
  /// The same request with this seed and `speculation.verify` gives the same tokens again. That
  /// holds always for greedy requests and with `coupled`; for others without speculation, or in
  /// `sync` with a fixed window if nothing failed and no window was cut; never for one that moved
  /// to another numeric setting (kernel, device) on its way. Answers that are not reproducible have
  /// the target's distribution all the same.
  bool reproducible = true;
};

using Event = std::variant<Delta, PromptLogprobs, Finished>;

/// A whole answer, for callers that do not stream. `end` says whether it is complete: an answer
/// that was cancelled, ran out of time or failed has what had come until then.
struct Completion {
  std::string text{};
  std::vector<TokenId> tokens{};
  std::vector<TokenLogprob> logprobs{};
  Finished end{};

  void add(const Delta& delta);
};

const char* to_string(FinishReason) noexcept;    ///< "stop", "length", ...
const char* to_string(SpeculationMode) noexcept; ///< "off", "sync", "overlap", "auto"
const char* to_string(VerifyRule) noexcept;      ///< "rejection", "coupled", "match", "auto"

} // namespace paceline
