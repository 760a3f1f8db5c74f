// The scheduler's view of one sequence.
#pragma once

#include "scheduling/batch.hpp"
#include "scheduling/draft_health.hpp"
#include "scheduling/kv.hpp"
#include "speculation/policy.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::scheduling {

struct Sequence {
  enum class Phase {
    waiting,   ///< Has no pages.
    reserving, ///< Has asked for pages.
    running,
  };

  SequenceSpecRef spec;
  TokenLogRef log;
  std::uint64_t arrival = 0; ///< Number of its arrival.
  base::TimePoint due;       ///< Its place among others (QueueOrder); the earlier ones go first.
  std::optional<base::TimePoint> deadline; ///< Time by which it has to have ended.
  Phase phase = Phase::waiting;
  PrefillPath path; ///< Same in every residency: its bits do not depend on what befell it.

  // The following describe its residency in the caches.
  int cached = 0;                   ///< Committed tokens in the target's pages.
  bool feeds_again = false;         ///< Its next step feeds rows again that a fork's pages had.
  PerPool<gpu::PageTableRef> pages; ///< Empty when it has none.
  CacheResidencyRef residency;
  bool growing = false; ///< Has asked for more pages.
  /// Time since which it lacks pages, after it had begun: nobody's forks take any.
  std::optional<base::TimePoint> lacks_pages;
  bool published = false;

  // The following describe its speculation.
  ChainRef chain;          ///< What the draft is writing; null: nothing.
  int window = 0;          ///< K of the chain's next window.
  Drafters drafters;       ///< Who writes it.
  int lookahead_until = 0; ///< Chain positions below this were drafted under a verification.
  /// Its part of a step's rows, among others' (DraftPlanning::share_windows).
  struct Share {
    int window = 0;    ///< Its K.
    bool ahead = true; ///< The next window is drafted meanwhile, if `overlap` is on.
  };
  std::optional<Share> share;
  speculation::FadingMean acceptance;       ///< Its own acceptance, of judged positions.
  speculation::FadingMean model_acceptance; ///< Acceptance of the model's tokens among these.
  SequenceHealth health;                    ///< Health of its draft.

  // The following describe its steps in flight: one, or chunks of its prompt in the stages of the
  // target.
  bool in_flight = false;
  Epoch epoch; ///< Epoch of the last of these steps, or of the reservation under way.
  /// A chunk that has another one behind it, or may have.
  struct Chunk {
    Epoch epoch;
    std::uint64_t batch = 0;
    int end = 0; ///< Committed tokens that it feeds up to.
  };
  std::deque<Chunk> chunks; ///< Used in a target of stages; the first one's verdict comes first.

  // The following describe what it has been through.
  std::optional<base::TimePoint> started; ///< Time at which it first had pages.
  int refusals = 0;                       ///< Refusals of pages in a row while nobody else ran.
  base::TimePoint grows_at{};             ///< It asks for no more pages before this.
  int recomputations = 0;                 ///< Recomputations without a new token since.
  int cached_tokens = 0;
  SpeculationStats stats;
  std::vector<TokenLogprob> prompt_logprobs; ///< Scores of the tokens fed in this residency.

  const gpu::PageTable& target_pages() const { return *pages[target_pool]; }
  int length() const { return log->size(); }
  int output() const { return length() - spec->prompt_tokens; }
  int budget() const { return spec->max_tokens - output(); }
  /// Returns how many positions it may ever have, in a context of `max_model_len`.
  int room(int max_model_len) const {
    return std::min(max_model_len, spec->prompt_tokens + spec->max_tokens);
  }
  bool running() const { return phase == Phase::running; }
  /// Returns the length of the current window by now: K, and what the answer's form has added.
  int window_now() const {
    return chain ? std::clamp(chain->window_end() - length(), window,
                              std::max(window, drafters.form_window))
                 : window;
  }
  /// Returns how many positions of the current window are bound.
  int bound() const { return chain ? std::clamp(chain->bound() - length(), 0, window_now()) : 0; }
  /// Says whether the current window is all there, or as much of it as will ever be.
  bool window_settled() const { return chain->settled(length() + window_now()); }
  /// Says whether its draft holds it up.
  bool held_up() const { return chain && health.is_held_up(*chain); }
  /// Returns how many committed tokens its next step need not feed; more than are cached while
  /// chunks of its prompt are in flight, which may yet fail.
  int fed() const { return chunks.empty() ? cached : chunks.back().end; }
  /// Says whether it can be in the next step: it is in none, or in one that reads its prompt and
  /// leaves a rest.
  bool may_step() const {
    return !in_flight || (!chunks.empty() && chunks.back().epoch == epoch && fed() < length());
  }
  /// Says whether the verdict of this epoch is the next one that counts.
  bool awaits(const Epoch& verdict) const {
    return in_flight && verdict == (chunks.empty() ? epoch : chunks.front().epoch);
  }
  bool decoding() const { return feeds_again || length() - fed() <= 1; }
  /// Says whether its next rows are of the fast path.
  bool reads_fast() const { return fed() < path.fast; }
  int rows_at_least() const { return reads_fast() ? path.chunk : 1; }
  /// Says whether log-probabilities of its prompt go out with its first token, or with its end.
  bool scores() const { return spec->prompt_logprobs && output() == 0; }
};

/// Mints the epochs of one scheduler; none is ever minted twice.
class EpochMint {
public:
  explicit EpochMint(std::uint32_t incarnation) : last_{incarnation, 0} {}
  Epoch next() {
    ++last_.counter;
    return last_;
  }

private:
  Epoch last_;
};

} // namespace paceline::scheduling
