// Compiles the form that a request asks for to the tokens that its answer may consist of.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "sampling/constraint.hpp"
#include "text/tokenizer.hpp"

#include <memory>
#include <vector>

namespace paceline::constraints {

/// The vocabulary that a form is compiled for.
struct Vocabulary {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  int size = 0;                     ///< Number of ids that the model draws from.
  std::vector<TokenId> end_of_text; ///< Ids that are possible only where the form may end.
};

/// Compiles forms for one vocabulary, by xgrammar (Dong et al. 2024, "XGrammar: Flexible and
/// efficient structured generation engine for large language models"), and keeps the forms asked
/// for last. The vocabulary is sorted at the first form. Threads: all members from any.
class Compiler {
public:
  explicit Compiler(Vocabulary vocabulary);
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// Returns the form of one request's answer. This takes milliseconds, and next to nothing for a
  /// form that is kept. Errors: invalid_argument for a form that is malformed, crosses a bound of
  /// limits.hpp, or that no text can have; unsupported, by name, for a part that nothing here can
  /// hold an answer to.
  Result<std::shared_ptr<const sampling::Constraint>> compile(const Constraint& form);

private:
  class State;
  std::shared_ptr<State> state_;
};

} // namespace paceline::constraints
