// One sequence's part of a call of a Drafter.
#pragma once

#include "execution/sparse_rows.hpp"
#include "paceline/drafter.hpp"
#include "speculation/drafted_text.hpp"
#include "speculation/form_guesses.hpp"

#include <memory>
#include <span>
#include <vector>

namespace paceline::execution {

/// Collects proposals: their positions are bound before the call, and they are put into the chain
/// after it. What the form of the answer says comes next stands before those of a Drafter, which
/// goes on behind it, and once more behind these if a Drafter knows no more.
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
  DrafterTask(const speculation::Frontier& at, speculation::DraftedText& text,
              speculation::FormGuesses& form, const Rows& rows, Beside beside);

  std::uint64_t sequence() const override { return spec().id; }
  std::span<const TokenId> context() const override { return text_.tokens; }
  std::size_t committed() const override { return text_.committed(); }
  int wanted() const override { return wanted_; }
  double chance_wanted() const override { return hands_on_ ? at_.drafters.chance : 0; }
  void propose(TokenId token) override;
  TokenId draw(std::span<const TokenWeight> weights) override;
  TokenId draw(std::span<const float> log_q) override;

  /// Whether a Drafter is to be called for it.
  bool asks() const { return asks_ && wanted_ > 0; }
  int asked() const { return asked_; }
  /// Goes on with the form where the Drafter, if it was called, has left room.
  void go_on();
  int proposed() const { return int(proposals_.size()); }
  speculation::Chain& chain() const { return *at_.chain; }
  /// Puts the proposals into the chain, which ends there if they are fewer than were asked for.
  void complete();

private:
  struct Proposed {
    TokenId token = 0;
    speculation::QRow q;
    speculation::Writer writer;
  };
  double spelled_from() const;
  bool spell(double chance_min);
  const speculation::SequenceSpec& spec() const { return *at_.spec; }
  TokenId put_aside(TokenId token);
  bool in_form(TokenId token);
  std::vector<TokenWeight> in_form(std::span<const TokenWeight> weights);
  int next() const { return chain().drawn() + proposed(); }
  void bind_next();
  void check_wanted() const;
  void check(TokenId token) const;
  void add(TokenId token, speculation::QRow q, speculation::Writer writer);
  void add_drawn(TokenId token, speculation::QRow q);
  TokenId drawn(std::span<const TokenWeight> weights) const;

  const speculation::Frontier& at_;
  speculation::DraftedText& text_;
  speculation::FormGuesses& form_;
  const Rows& rows_;
  bool looks_up_ = false; ///< The task stands beside a model.
  bool hands_on_ = false; ///< That model drafts what is not proposed.
  bool asks_ = false;     ///< A Drafter drafts, too.
  double spelled_ = 1;    ///< Chance that all tokens of the form come true.
  int asked_ = 0;
  int wanted_ = 0;
  /// Whether a proposed token was not in the constraint: proposals from here on are not used.
  bool left_form_ = false;
  sampling::TokenMask mask_; ///< The constraint's mask behind `masked_` tokens, if `restricts_`.
  bool restricts_ = false;   ///< Not every token may come there.
  std::size_t masked_ = 0;
  std::vector<Proposed> proposals_;
};

} // namespace paceline::execution
