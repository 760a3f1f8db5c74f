// The scheduler's view of one sequence.
#pragma once

#include "scheduling/batch.hpp"
#include "scheduling/draft_health.hpp"
#include "scheduling/kv.hpp"
#include "speculation/policy.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
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
  std::uint64_t arrival = 0; ///< Numbered.
  base::TimePoint due;       ///< Its place among others (QueueOrder); the earlier ones go first.
  std::optional<base::TimePoint> deadline; ///< When it has to have ended.
  Phase phase = Phase::waiting;
  PrefillPath path; ///< Of every residency: its bits do not depend on what befell it.

  // Its residency in the caches.
  int cached = 0;                   ///< Committed tokens in the target's pages.
  bool feeds_again = false;         ///< Those behind, a fork's pages had: rows of its next step.
  PerPool<gpu::PageTableRef> pages; ///< Empty: it has none.
  CacheResidencyRef residency;
  bool growing = false; ///< Has asked for more pages.
  /// Since when, after it had begun: nobody's forks take any.
  std::optional<base::TimePoint> lacks_pages;
  bool published = false;

  // Its speculation.
  ChainRef chain;          ///< What the draft is writing; null: nothing.
  int window = 0;          ///< K of the chain's next window.
  int lookahead_until = 0; ///< Chain positions below this were drafted under a verification.
  /// Its part of a step's rows, among others' (DraftPlanning::share_windows).
  struct Share {
    int window = 0;    ///< Its K.
    bool ahead = true; ///< Where `overlap` is on, the next window is drafted meanwhile.
  };
  std::optional<Share> share;
  speculation::FadingMean acceptance;       ///< Its own, of judged positions;
  speculation::FadingMean model_acceptance; ///< of those, the model's.
  SequenceHealth health;                    ///< Of its draft.

  // Its steps in flight: one, or chunks of its prompt in the stages of the target.
  bool in_flight = false;
  Epoch epoch; ///< Of the last of these steps, or of the reservation under way.
  /// A chunk that has another one behind it, or may have.
  struct Chunk {
    Epoch epoch;
    std::uint64_t batch = 0;
    int end = 0; ///< Committed tokens that it feeds up to.
  };
  std::deque<Chunk> chunks; ///< Of a target in stages; the first one's verdict comes first.

  // What it has been through.
  std::optional<base::TimePoint> started; ///< When it first had pages.
  int refusals = 0;                       ///< Of pages, in a row, while nobody else ran.
  base::TimePoint grows_at{};             ///< It does not ask for more pages sooner.
  int recomputations = 0;                 ///< Without a new token since.
  int cached_tokens = 0;
  SpeculationStats stats;
  std::vector<TokenLogprob> prompt_logprobs; ///< Of the tokens fed in this residency.

  const gpu::PageTable& target_pages() const { return *pages[target_pool]; }
  int length() const { return log->size(); }
  int output() const { return length() - spec->prompt_tokens; }
  int budget() const { return spec->max_tokens - output(); }
  /// Positions that it may ever have, in a context of `max_model_len`.
  int room(int max_model_len) const {
    return std::min(max_model_len, spec->prompt_tokens + spec->max_tokens);
  }
  bool running() const { return phase == Phase::running; }
  /// Positions of the current window that are bound.
  int bound() const { return chain ? std::clamp(chain->bound() - length(), 0, window) : 0; }
  /// The current window is all there, or as much of it as will ever be.
  bool window_settled() const { return chain->settled(length() + window); }
  /// By its draft.
  bool held_up() const { return chain && health.is_held_up(*chain); }
  /// Committed tokens that its next step need not feed; more than are cached while chunks of its
  /// prompt are in flight, which may yet fail.
  int fed() const { return chunks.empty() ? cached : chunks.back().end; }
  /// It can be in the next step: in none, or in one that reads its prompt and leaves a rest.
  bool may_step() const {
    return !in_flight || (!chunks.empty() && chunks.back().epoch == epoch && fed() < length());
  }
  /// The verdict of this epoch is the next one that counts.
  bool awaits(const Epoch& verdict) const {
    return in_flight && verdict == (chunks.empty() ? epoch : chunks.front().epoch);
  }
  bool decoding() const { return feeds_again || length() - fed() <= 1; }
  /// Its next rows are of the fast path.
  bool reads_fast() const { return fed() < path.fast; }
  int rows_at_least() const { return reads_fast() ? path.chunk : 1; }
  /// Its prompt's log-probabilities go out with its first token, or with its end.
  bool scores() const { return spec->prompt_logprobs && output() == 0; }
};

/// All that are open, by id.
using Sequences = std::map<SequenceId, Sequence>;

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
