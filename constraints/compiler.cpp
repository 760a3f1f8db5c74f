#include "constraints/compiler.hpp"

#include "constraints/answer_form.hpp"
#include "constraints/budget.hpp"
#include "constraints/form_check.hpp"
#include "constraints/limits.hpp"
#include "constraints/xgrammar_log.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>
#include <mutex>
#include <optional>

namespace paceline::constraints {
namespace {

/// Bytes of each token; special tokens have none, and no form has them in it.
xgrammar::TokenizerInfo sorted(const Vocabulary& vocabulary) {
  std::vector<std::string> bytes(static_cast<std::size_t>(vocabulary.size));
  for (TokenId id = 0; id < std::min(vocabulary.size, vocabulary.tokenizer->vocabulary()); ++id)
    bytes[std::size_t(id)] = vocabulary.tokenizer->bytes(id);
  return xgrammar::TokenizerInfo(bytes, xgrammar::VocabType::RAW, vocabulary.size,
                                 vocabulary.end_of_text);
}

/// A literal of EBNF.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\';
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += fmt::format("\\x{:02x}", byte);
  }
  return out + '"';
}

/// Whether anything may come first: the end of the text counts.
bool has_text(const xgrammar::CompiledGrammar& form) {
  const auto words = std::size_t(xgrammar::GetBitmaskSize(form.GetTokenizerInfo().GetVocabSize()));
  sampling::TokenMask mask(words, ~0u);
  xgrammar::GrammarMatcher matcher(form);
  return !fill_mask(matcher, mask) ||
         std::ranges::any_of(mask, [](auto word) { return word != 0; });
}

std::string grammar_of(const std::vector<std::string>& choices) {
  std::string grammar = "root ::= ";
  for (std::size_t i = 0; i < choices.size(); ++i)
    grammar += (i == 0 ? "" : " | ") + quoted(choices[i]);
  return grammar;
}

} // namespace

class Compiler::State {
public:
  explicit State(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  int vocabulary() const { return vocabulary_.size; }

  /// As it came out before, if it is kept; one form at a time.
  Result<xgrammar::CompiledGrammar> compile(const Constraint& form) {
    const std::lock_guard lock(mutex_);
    const auto at =
        std::ranges::find_if(kept_, [&form](const Kept& one) { return same(one.form, form); });
    if (at != kept_.end()) {
      std::rotate(kept_.begin(), at, at + 1);
      return kept_.front().compiled;
    }
    auto compiled = compile_anew(form);
    kept_.insert(kept_.begin(), {form, compiled});
    drop_the_oldest();
    return compiled;
  }

  /// Of a form that was compiled here.
  void later(std::function<void()> work) { boost::asio::post(*ahead_, std::move(work)); }
  void stop() {
    if (ahead_)
      ahead_->stop(), ahead_->join();
  }

private:
  /// Errors, too: who asks again for what is refused does not make it work again.
  struct Kept {
    Constraint form;
    Result<xgrammar::CompiledGrammar> compiled;

    std::size_t bytes() const {
      std::size_t all = form.text.size() + (compiled ? compiled->MemorySizeBytes() : 0);
      for (const std::string& choice : form.choices)
        all += choice.size();
      return all;
    }
  };

  static bool same(const Constraint& a, const Constraint& b) {
    return a.kind == b.kind && a.text == b.text && a.choices == b.choices;
  }

  void drop_the_oldest() {
    std::size_t bytes = 0;
    const auto behind = std::ranges::find_if(kept_, [&bytes](const Kept& one) {
      bytes += one.bytes();
      return bytes > limits::compiled_bytes_max;
    });
    kept_.erase(std::max(behind, kept_.begin() + 1), kept_.end());
    kept_.resize(std::min(kept_.size(), limits::forms_kept), kept_.front());
  }

  Result<xgrammar::CompiledGrammar> compile_anew(const Constraint& form) {
    if (auto fits = check_form(form); !fits)
      return tl::unexpected(fits.error());
    const Warnings warnings;
    try {
      const Budget budget(limits::compile_seconds_max);
      auto compiled = compiled_by_kind(form);
      if (warnings.said.empty() && !has_text(compiled))
        return fail(ErrorCode::invalid_argument, "no text has the form", "mend it");
      if (warnings.said.empty())
        return compiled;
      return fail(ErrorCode::unsupported,
                  "the form asks for what answers would not be held to: " +
                      text::shown(warnings.said.front(), 200),
                  "leave that out of it");
    } catch (const std::exception& error) {
      return fail(ErrorCode::invalid_argument,
                  "the form is none: " + text::shown(error.what(), 300), "mend it");
    }
  }

  xgrammar::CompiledGrammar compiled_by_kind(const Constraint& form) {
    using Kind = Constraint::Kind;
    xgrammar::GrammarCompiler& compiler = this->compiler();
    switch (form.kind) {
    case Kind::json: return schema(R"({"type":"object"})", false);
    case Kind::json_schema: return schema(form.text, true);
    case Kind::regex: return compiler.CompileRegex(form.text);
    case Kind::choice: return compiler.CompileGrammar(grammar_of(form.choices));
    case Kind::grammar: return compiler.CompileGrammar(form.text);
    case Kind::structural_tag: break;
    }
    return compiler.CompileStructuralTag(form.text);
  }

  xgrammar::GrammarCompiler& compiler() {
    if (!compiler_) {
      compiler_.emplace(sorted(vocabulary_), 1, false);
      ahead_.emplace(1);
    }
    return *compiler_;
  }

  xgrammar::CompiledGrammar schema(const std::string& text, bool strict) {
    return compiler().CompileJSONSchema(text, true, std::nullopt, std::nullopt, strict,
                                        limits::whitespace_max);
  }

  const Vocabulary vocabulary_;
  std::mutex mutex_; ///< Of what follows.
  std::optional<xgrammar::GrammarCompiler> compiler_;
  std::vector<Kept> kept_;                        ///< The last one that was asked for first.
  std::optional<boost::asio::thread_pool> ahead_; ///< There once a form was compiled.
};

Compiler::Compiler(Vocabulary vocabulary)
    : state_(std::make_shared<State>(std::move(vocabulary))) {}

Compiler::~Compiler() {
  state_->stop();
}

Result<std::shared_ptr<const sampling::Constraint>> Compiler::compile(const Constraint& form) {
  const auto compiled = state_->compile(form);
  if (!compiled)
    return tl::unexpected(compiled.error());
  return std::make_shared<AnswerForm>(*compiled, state_->vocabulary(),
                                      [state = std::weak_ptr(state_)](std::function<void()> work) {
                                        if (const auto alive = state.lock())
                                          alive->later(std::move(work));
                                      });
}

} // namespace paceline::constraints
