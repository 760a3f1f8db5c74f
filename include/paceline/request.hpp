// A request: what a caller asks an engine for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline {

using TokenId = std::int32_t;

/// How draft and target work together (see docs/theory.md).
enum class SpeculationMode {
  off,       ///< Plain decoding with the target alone.
  sync,      ///< Drafts a window, verifies it, drafts the next.
  overlap,   ///< Drafts the next window while the current one is verified.
  automatic, ///< Starts in `sync`, learns from the rounds served, and uses what is fastest.
};

/// What `overlap` drafts past a window that is being verified.
enum class Lookahead {
  automatic, ///< `chain` or `fork`, whichever is expected to be faster.
  none,
  chain, ///< Goes on from the window's end, which is of use when all of it is accepted.
  fork,  ///< Like `chain`, and windows for the likeliest rejections, as more rows in its passes.
};

/// How the target judges drafted tokens (docs/theory.md says what each rule promises).
enum class VerifyRule {
  rejection, ///< Speculative sampling (Chen et al. 2023, Leviathan et al. 2022).
  coupled,   ///< Gumbel coupling: exactly the tokens of plain sampling with the same seed.
  match,     ///< Samples from the target, accepts on equality.
  automatic, ///< `coupled` when the request names a seed, else `rejection`.
};

/// Which distribution of the model log-probabilities are taken from.
enum class LogprobsMode { raw, processed };

/// Each value that is not set comes from the checkpoint's generation_config.json, or if that has
/// none it is the neutral value in the comment.
struct Sampling {
  std::optional<float> temperature{};        ///< 0: greedy (neutral). At most 100.
  std::optional<int> top_k{};                ///< 0: off (neutral).
  std::optional<float> top_p{};              ///< 1e-6 to 1; 1: off (neutral).
  std::optional<float> min_p{};              ///< 0 to 1; 0: off (neutral).
  std::optional<float> repetition_penalty{}; ///< 1e-6 to 100; 1: off (neutral). Prompt and output.
  std::optional<float> presence_penalty{};   ///< -2 to 2; 0: off (neutral). Output only.
  std::optional<float> frequency_penalty{};  ///< -2 to 2; 0: off (neutral). Output only.
  /// Values added to logits, in this order. -infinity makes a token impossible, whatever else is
  /// added; +infinity counts as the greatest finite logit. A request that leaves no token possible
  /// ends with an error.
  std::vector<std::pair<TokenId, float>> logit_bias{};
  /// All other tokens are impossible; empty: all tokens are allowed.
  std::vector<TokenId> allowed_token_ids{};
  std::optional<std::uint64_t> seed{}; ///< Drawn and reported if not given.
  int choice = 0; ///< Number of the answer among several with one seed: each has noise of its own.
};

/// The form of an answer. Every token that leaves the form is impossible, for drafts as for the
/// target, and the text ends only where the form may end. An answer that `max_tokens`, a stop or a
/// deadline cuts short is the beginning of one in that form.
struct Constraint {
  enum class Kind {
    json,           ///< A JSON object.
    json_schema,    ///< JSON that fits the schema; objects have no members but the schema's.
    regex,          ///< A text that the whole expression matches.
    choice,         ///< One of `choices`.
    grammar,        ///< A text of this EBNF grammar, written as for GBNF; its first rule is "root".
    structural_tag, ///< Forms between tags, and any text around them, in xgrammar's JSON format.
  };
  Kind kind = Kind::json;
  std::string text{};                 ///< The schema, expression, grammar or tag.
  std::vector<std::string> choices{}; ///< Texts, for `choice`.
  /// Blanks may stand between the parts of JSON. false: there is one behind each comma and colon,
  /// and no other, so that the form leaves less to the model, and drafts more.
  bool any_whitespace = true;
};

struct Request {
  std::string prompt{};                 ///< Text; it is an error beside `prompt_tokens`.
  std::vector<TokenId> prompt_tokens{}; ///< Token ids, which are taken as they are.
  /// Puts before `prompt` what the checkpoint puts before a text (such as a BOS). false: the prompt
  /// has it already, like what Engine::render_chat writes.
  bool add_special_tokens = true;
  /// Special tokens that `prompt` spells ("<|im_end|>") become those tokens. false: they are text.
  bool parse_special_tokens = false;
  std::optional<int> max_tokens{}; ///< Default: as many as the context leaves.
  std::vector<std::string> stop{}; ///< The output ends before the first of these.
  std::vector<TokenId>
      stop_token_ids{}; ///< The output ends with the first of these, `ignore_eos` or not.
  bool ignore_eos = false;
  /// Tokens that the output has at least: before them the end of text and `stop_token_ids` are
  /// impossible, `ignore_eos` or not, and a `stop` ends the output only if it is completed later.
  int min_tokens = 0;
  /// Special tokens have no text in the output. false: they have, except one that ends the output.
  bool skip_special_tokens = true;
  Sampling sampling{};
  /// The form of the answer. Within it the end of text and `stop_token_ids` are impossible;
  /// `ignore_eos` beside it is an error.
  std::optional<Constraint> constraint{};

  std::optional<SpeculationMode> speculation{}; ///< Default: the engine's.
  std::optional<int> window{};                  ///< Fixed window length K; default: the engine's.
  /// Which of Engine::drafters drafts, or "form", or "none". Default: for each token the one that
  /// promises more; where there is a `constraint`, what that says of the text comes first.
  std::optional<std::string> drafter{};
  VerifyRule verify = VerifyRule::automatic;
  /// Drafts may come from the answers to requests of the same scope, never from those of another
  /// scope: how fast an answer comes may reveal what is remembered.
  std::string draft_scope{};
  /// What was computed for a prompt (the prefix cache) serves only requests of the same salt: how
  /// soon an answer begins, and Usage::cached_tokens, reveal what is cached. The name is vLLM's.
  std::string cache_salt{};

  bool logprobs = false;        ///< Log-probability of each output token.
  int top_logprobs = 0;         ///< Likeliest alternatives reported with each (at most 20).
  bool prompt_logprobs = false; ///< Log-probability of each prompt token.
  LogprobsMode logprobs_mode = LogprobsMode::raw;

  /// Time allowed from submission to the last token; none: no limit. 0 or less: it has passed
  /// already, and the request ends at once. More than a year counts as a year.
  std::optional<std::chrono::milliseconds> deadline{};
  int priority = 0;      ///< Priority with SchedulingPolicy::priority: the least goes first.
  std::string client{};  ///< Client whose share of the engine the request uses, with `fcfs`.
  int client_weight = 1; ///< Weight of that share beside other clients' (at most 1,000).
};

} // namespace paceline
