// The form of one request's answer, and the position of outputs in it.
#pragma once

#include "sampling/constraint.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>
#include <xgrammar/xgrammar.h>

namespace paceline::constraints {

/// Writes what may come next into a mask of the vocabulary's size. Returns false if every token
/// may.
bool fill_mask(xgrammar::GrammarMatcher& matcher, sampling::TokenMask& mask);

/// Follows one output after another: tokens that an output shares with the one before are not read
/// again. The masks that were asked for last are kept, since a draft, the target's rows and the
/// round behind a rejection ask for the same ones.
class AnswerForm final : public sampling::Constraint,
                         public std::enable_shared_from_this<AnswerForm> {
public:
  /// Runs a function later, on another thread.
  using Later = std::function<void(std::function<void()>)>;
  AnswerForm(const xgrammar::CompiledGrammar& form, int vocabulary, Later later);

  bool next(const sampling::History& history, sampling::TokenMask& mask) const override;
  void expect(const sampling::History& history, std::span<const TokenId> window) const override;

private:
  using Output = std::vector<TokenId>;
  struct Known {
    Output output;
    bool restricted = false;
    sampling::TokenMask mask;
  };
  /// A window whose masks are asked for soon.
  struct Expected {
    Output output; ///< Output that includes all of the window.
    /// Number of masks: behind none of the window's tokens, behind its first one, and so on.
    std::size_t rows = 0;
  };

  void work_ahead() const;
  std::optional<Expected> take_expected() const noexcept;
  const Known& known(Output output) const;
  const Known* find(std::span<const TokenId> output) const;
  Known worked_out(Output output) const;
  bool read(std::span<const TokenId> output) const;

  const int vocabulary_;
  const Later later_;

  mutable std::mutex mutex_; ///< Guards the matcher and the masks that came from it.
  mutable xgrammar::GrammarMatcher matcher_;
  mutable Output read_; ///< Tokens that the matcher has accepted.
  mutable bool broken_ = false;
  mutable std::vector<Known> known_;
  mutable std::size_t oldest_ = 0; ///< Index of the oldest mask in `known_`.

  mutable std::mutex expected_mutex_;
  mutable std::optional<Expected> expected_; ///< The newest window alone: earlier ones are over.
};

} // namespace paceline::constraints
