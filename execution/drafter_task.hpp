// One sequence's part of a call of a Drafter.
#pragma once

#include "execution/drafter_host.hpp"
#include "execution/sparse_rows.hpp"
#include "paceline/drafter.hpp"
#include "speculation/frontier.hpp"

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace paceline::execution {

/// A sequence as the Drafter's lane knows it.
struct DraftedText {
  speculation::Frontier at;
  std::vector<TokenId> tokens; ///< Committed tokens, then those that the chain has drawn.
  std::size_t committed = 0;

  /// Takes the frontier and the tokens that it commits.
  void advance(speculation::Frontier frontier);
  /// Reads the tokens that the chain has drawn.
  void catch_up();
};

/// Collects proposals: their positions are bound before the call, and they are put into the chain
/// after it.
class DrafterTask final : public DraftTask {
public:
  struct Rows {
    int vocabulary = 0;
    std::shared_ptr<SparseRows> q;
  };
  /// Says who else drafts for the sequence on this lane.
  enum class Beside { nobody, model };
  /// Binds the positions that are asked for: the missing part of the chain's window, or else its
  /// lookahead. Beside a model all that the chain lacks is asked for; if the model drafts the
  /// positions that are not proposed, a position is bound when the token before it is there, and
  /// before it is drawn.
  DrafterTask(DraftedText& text, const Rows& rows, Beside beside = Beside::nobody);

  std::uint64_t sequence() const override { return text_.at.spec->id; }
  std::span<const TokenId> context() const override { return text_.tokens; }
  std::size_t committed() const override { return text_.committed; }
  int wanted() const override { return wanted_; }
  double chance_wanted() const override { return hands_on_ ? text_.at.drafters.chance : 0; }
  void propose(TokenId token) override;
  TokenId draw(std::span<const TokenWeight> weights) override;
  TokenId draw(std::span<const float> log_q) override;

  int asked() const { return asked_; }
  int proposed() const { return int(proposals_.size()); }
  speculation::Chain& chain() const { return *text_.at.chain; }
  /// Puts the proposals into the chain, which ends there if they are fewer than were asked for.
  void complete();

private:
  struct Proposed {
    TokenId token = 0;
    speculation::QRow q;
  };
  const speculation::SequenceSpec& spec() const { return *text_.at.spec; }
  TokenId put_aside(TokenId token);
  bool in_form(TokenId token);
  std::vector<TokenWeight> in_form(std::span<const TokenWeight> weights);
  void bind_next();
  void check_wanted() const;
  void check(TokenId token) const;
  void add(TokenId token, speculation::QRow q);
  TokenId drawn(std::span<const TokenWeight> weights) const;

  DraftedText& text_;
  const Rows& rows_;
  bool looks_up_ = false; ///< The task stands beside a model.
  bool hands_on_ = false; ///< That model drafts what is not proposed.
  int asked_ = 0;
  int wanted_ = 0;
  /// Whether a proposed token was not in the constraint: proposals from here on are not used.
  bool left_form_ = false;
  sampling::TokenMask mask_; ///< The constraint's mask behind `masked_` tokens, if `restricts_`.
  bool restricts_ = false;   ///< Not every token may come there.
  std::size_t masked_ = 0;
  std::vector<Proposed> proposals_;
};

/// The sequences of a lane, for a Drafter.
class DraftedTexts {
public:
  /// Takes newer frontiers, and forgets sequences whose residency is over. Returns true when
  /// sequences have come or gone.
  bool take(std::vector<speculation::Frontier> news);
  /// Has `host` make proposals for `tasks`, which belong to some of the sequences.
  void propose(DrafterHost& host, std::span<DrafterTask> tasks) const;
  /// Gives up the tasks under way, so that nobody waits for what is left undone.
  void abandon();

  std::map<speculation::SequenceId, DraftedText> texts;
};

} // namespace paceline::execution
