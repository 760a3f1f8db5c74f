// The form of one request's answer, and the position of outputs in it.
#pragma once

#include "sampling/constraint.hpp"
#include "text/tokenizer.hpp"

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

/// A form, compiled for one vocabulary.
struct CompiledForm {
  xgrammar::CompiledGrammar form;
  /// The same, with the blanks that are usual and no others; none: blanks are not free in the form.
  std::optional<xgrammar::CompiledGrammar> usual{};
};

/// Follows one output after another: tokens that an output shares with the one before are not read
/// again. The masks that were asked for last are kept, since a draft, the target's rows and the
/// round behind a rejection ask for the same ones.
class AnswerForm final : public sampling::Constraint,
                         public std::enable_shared_from_this<AnswerForm> {
public:
  /// Runs a function later, on another thread.
  using Later = std::function<void(std::function<void()>)>;
  AnswerForm(const CompiledForm& form, int vocabulary,
             std::shared_ptr<const text::Tokenizer> tokenizer, Later later);

  bool next(const sampling::History& history, sampling::TokenMask& mask) const override;
  void expect(const sampling::History& history, std::span<const TokenId> window) const override;
  std::optional<sampling::FormToken> foretell(const sampling::History& history) const override;

private:
  using Output = std::vector<TokenId>;
  struct Known {
    Output output;
    bool restricted = false;
    sampling::TokenMask mask;
    std::optional<std::optional<sampling::FormToken>> foretold; ///< None: nobody has asked yet.
  };
  /// A matcher, and the tokens that it has accepted.
  struct Reading {
    xgrammar::GrammarMatcher matcher;
    Output read{};
    bool follow(std::span<const TokenId> output);
    bool fill(std::span<const TokenId> output, sampling::TokenMask& mask);
  };
  /// A window whose masks are asked for soon.
  struct Expected {
    Output output; ///< Output that includes all of the window.
    /// Number of masks: behind none of the window's tokens, behind its first one, and so on.
    std::size_t rows = 0;
  };

  void work_ahead() const;
  std::optional<Expected> take_expected() const noexcept;
  Known& known(Output output) const;
  Known* find(std::span<const TokenId> output) const;
  Known worked_out(Output output) const;
  std::optional<sampling::FormToken> foretold(const Known& at) const;
  std::optional<sampling::FormToken> spelled(Reading& reading, const Output& output,
                                             const sampling::TokenMask& mask) const;
  sampling::TokenMask open_mask() const;

  const int vocabulary_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const Later later_;
  const xgrammar::CompiledGrammar form_;

  mutable std::mutex mutex_; ///< Guards the matchers and what came from them.
  mutable Reading reading_;
  mutable std::optional<Reading> usual_; ///< None: there is no CompiledForm::usual.
  mutable bool broken_ = false;
  mutable bool foretells_ = true; ///< False once that took too long.
  mutable std::vector<Known> known_;
  mutable std::size_t oldest_ = 0; ///< Index of the oldest mask in `known_`.

  mutable std::mutex expected_mutex_;
  mutable std::optional<Expected> expected_; ///< The newest window alone: earlier ones are over.
};

} // namespace paceline::constraints
