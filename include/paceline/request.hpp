// What a caller asks for.
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
  sync,      ///< Draft a window, verify it, draft the next.
  overlap,   ///< Draft the next window while the current one is verified.
  automatic, ///< Start in `sync`, learn from the rounds served, use what is fastest.
};

/// What `overlap` drafts past a window while that is verified.
enum class Lookahead {
  automatic, ///< `chain` or `fork`, whichever is expected to be faster.
  none,
  chain, ///< On from the window's end: of use when all of it is accepted.
  fork,  ///< And windows for the likeliest rejections, as further rows of the draft's passes.
};

/// How the target judges drafted tokens (see docs/theory.md for what each promises).
enum class VerifyRule {
  rejection, ///< Speculative sampling (Chen et al. 2023, Leviathan et al. 2022).
  coupled,   ///< Gumbel coupling: exactly the tokens of plain sampling with the same seed.
  match,     ///< Sample from the target, accept on equality.
  automatic, ///< `coupled` when the request names a seed, else `rejection`.
};

/// Which model distribution log-probabilities are taken from.
enum class LogprobsMode { raw, processed };

/// Every value that is not set comes from the checkpoint's generation_config.json, else from the
/// neutral value in the comment.
struct Sampling {
  std::optional<float> temperature{};        ///< 0: greedy (neutral). At most 100.
  std::optional<int> top_k{};                ///< 0: off (neutral).
  std::optional<float> top_p{};              ///< From 1e-6 to 1; 1: off (neutral).
  std::optional<float> min_p{};              ///< In [0, 1]; 0: off (neutral).
  std::optional<float> repetition_penalty{}; ///< From 1e-6 to 100; 1: off (neutral). Over prompt
                                             ///< and output.
  std::optional<float> presence_penalty{};   ///< In [-2, 2]; 0: off (neutral). Over the output.
  std::optional<float> frequency_penalty{};  ///< In [-2, 2]; 0: off (neutral). Over the output.
  /// Added to logits, in this order. -infinity makes a token impossible, whatever is added besides;
  /// +infinity counts as the greatest finite logit. A request that leaves no token ends with an
  /// error.
  std::vector<std::pair<TokenId, float>> logit_bias{};
  /// All others are impossible; empty: none are.
  std::vector<TokenId> allowed_token_ids{};
  std::optional<std::uint64_t> seed{}; ///< Drawn and reported when not given.
  int choice = 0; ///< Which of several answers with one seed: each has noise of its own.
};

/// The form of an answer: every token that leaves it is impossible, for drafts as for the target,
/// and the text ends only where the form may. An answer that `max_tokens`, a stop or a deadline
/// cuts is the beginning of one.
struct Constraint {
  enum class Kind {
    json,           ///< An object of JSON.
    json_schema,    ///< JSON that this schema describes; objects have no members but its own.
    regex,          ///< The whole answer matches.
    choice,         ///< One of `choices`.
    grammar,        ///< In EBNF as GBNF has it; its first rule is "root".
    structural_tag, ///< Forms between tags, and any text around them, as xgrammar's JSON has it.
  };
  Kind kind = Kind::json;
  std::string text{};                 ///< The schema, expression, grammar or tag.
  std::vector<std::string> choices{}; ///< Texts, for `choice`.
};

struct Request {
  std::string prompt{};                 ///< Text; with `prompt_tokens` it is an error.
  std::vector<TokenId> prompt_tokens{}; ///< Ids; taken as they are.
  /// Before `prompt` stands what the checkpoint puts before a text (such as a BOS). false: it
  /// stands in the prompt already, as in what Engine::render_chat writes.
  bool add_special_tokens = true;
  /// Special tokens that `prompt` spells ("<|im_end|>") are those. false: they are text.
  bool parse_special_tokens = false;
  std::optional<int> max_tokens{}; ///< Default: what the context leaves.
  std::vector<std::string> stop{}; ///< Output ends before the first of these.
  std::vector<TokenId>
      stop_token_ids{}; ///< Output ends with the first of these, `ignore_eos` or not.
  bool ignore_eos = false;
  /// Until the output has so many tokens the end of the text and `stop_token_ids` are impossible,
  /// `ignore_eos` or not, and a `stop` ends it only where it is completed behind them.
  int min_tokens = 0;
  /// Special tokens have no text in the output. false: they have, but for one that ends it.
  bool skip_special_tokens = true;
  Sampling sampling{};
  /// What ends the text, and `stop_token_ids`, are impossible within the form; `ignore_eos` is an
  /// error beside it.
  std::optional<Constraint> constraint{};

  std::optional<SpeculationMode> speculation{}; ///< Default: the engine's.
  std::optional<int> window{};                  ///< Fixed window length K; default: the engine's.
  /// Which of Engine::drafters drafts, or "none". Default: for each token the one from which more
  /// is expected.
  std::optional<std::string> drafter{};
  VerifyRule verify = VerifyRule::automatic;
  /// Drafts may come from what requests of the same scope have said before, and from no other's:
  /// how fast an answer comes may tell what is in there.
  std::string draft_scope{};
  /// What was computed for a prompt (the prefix cache) serves requests of the same salt, and no
  /// others: how soon an answer begins, and Usage::cached_tokens, tell what is there. vLLM's name.
  std::string cache_salt{};

  bool logprobs = false;        ///< Log-probability of each output token.
  int top_logprobs = 0;         ///< And of the likeliest alternatives (at most limits' bound).
  bool prompt_logprobs = false; ///< Log-probability of each prompt token.
  LogprobsMode logprobs_mode = LogprobsMode::raw;

  /// Time allowed from submission to the last token; none: no limit. 0 or less: it has passed, and
  /// the request ends at once. More than a year counts as a year.
  std::optional<std::chrono::milliseconds> deadline{};
  int priority = 0;      ///< With SchedulingPolicy::priority: the lesser goes first.
  std::string client{};  ///< With `fcfs`: whose share of the engine it counts against.
  int client_weight = 1; ///< And how large that is, beside other clients' (at most 1,000).
};

} // namespace paceline
