#include "constraints/compiler.hpp"

#include "constraints/answer_form.hpp"
#include "constraints/bounded_strings.hpp"
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
#include <new>
#include <optional>
#include <tuple>

namespace paceline::constraints {
namespace {

/// Makes xgrammar's sorted vocabulary from each token's bytes. Special tokens have none, and no
/// form contains them.
xgrammar::TokenizerInfo sorted(const Vocabulary& vocabulary) {
  std::vector<std::string> bytes(static_cast<std::size_t>(vocabulary.size));
  for (TokenId id = 0; id < std::min(vocabulary.size, vocabulary.tokenizer->vocabulary()); ++id)
    bytes[std::size_t(id)] = vocabulary.tokenizer->bytes(id);
  return xgrammar::TokenizerInfo(bytes, xgrammar::VocabType::RAW, vocabulary.size,
                                 vocabulary.end_of_text);
}

/// Writes a text as a literal of EBNF.
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

/// Returns whether anything may come first; the end of the text counts. It has as much time as a
/// mask.
bool has_text(const xgrammar::CompiledGrammar& form) {
  const Budget budget(limits::mask_seconds_max);
  const auto words = std::size_t(xgrammar::GetBitmaskSize(form.GetTokenizerInfo().GetVocabSize()));
  sampling::TokenMask mask(words, ~0u);
  xgrammar::GrammarMatcher matcher(form);
  return !fill_mask(matcher, mask) ||
         std::ranges::any_of(mask, [](auto word) { return word != 0; });
}

/// Returns what is wrong with a form, without the condition in xgrammar's sources that says so.
std::string told(const std::exception& error) {
  std::string_view what = error.what();
  constexpr std::string_view condition = "is false: ";
  if (what.starts_with("Check failed: "))
    if (const auto at = what.find(condition); at != std::string_view::npos)
      what.remove_prefix(at + condition.size());
  return what.empty() ? "it cannot be read" : text::shown(what, 300);
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

  /// Returns the kept result, or compiles the form. One form is compiled at a time; callers that
  /// ask for a kept one do not wait for that.
  Result<CompiledForm> compile(const Constraint& form) {
    if (auto fits = check_form(form); !fits)
      return tl::unexpected(fits.error());
    if (auto before = kept(form))
      return *before;
    const std::lock_guard lock(compile_mutex_);
    if (auto before = kept(form)) // it was compiled while this waited
      return *before;
    auto compiled = compile_anew(form);
    keep(form, compiled);
    return compiled;
  }

  const std::shared_ptr<const text::Tokenizer>& tokenizer() const { return vocabulary_.tokenizer; }
  /// Posts work to the thread that works ahead. A form must have been compiled before.
  void later(std::function<void()> work) { boost::asio::post(*ahead_, std::move(work)); }
  void stop() {
    if (ahead_)
      ahead_->stop(), ahead_->join();
  }

private:
  /// A result, errors too: a form that was refused is not worked on again.
  struct Kept {
    Constraint form;
    Result<CompiledForm> compiled;
    std::size_t bytes = 0;
  };

  static bool same(const Constraint& a, const Constraint& b) {
    return std::tie(a.kind, a.text, a.choices, a.any_whitespace) ==
           std::tie(b.kind, b.text, b.choices, b.any_whitespace);
  }

  std::optional<Result<CompiledForm>> kept(const Constraint& form) {
    const std::lock_guard lock(kept_mutex_);
    const auto at =
        std::ranges::find_if(kept_, [&form](const Kept& one) { return same(one.form, form); });
    if (at == kept_.end())
      return std::nullopt;
    std::rotate(kept_.begin(), at, at + 1);
    return kept_.front().compiled;
  }

  void keep(const Constraint& form, const Result<CompiledForm>& compiled) {
    const std::size_t bytes = 2 * limits::form_bytes_max + (compiled ? size_of(*compiled) : 0);
    const std::lock_guard lock(kept_mutex_);
    kept_.insert(kept_.begin(), {form, compiled, bytes});
    kept_bytes_ += bytes;
    while (kept_.size() > 1 && (kept_bytes_ > limits::compiled_bytes_max || room_->full())) {
      kept_bytes_ -= kept_.back().bytes;
      kept_.pop_back();
    }
  }

  static std::size_t size_of(const CompiledForm& compiled) {
    return compiled.form.MemorySizeBytes() +
           (compiled.usual ? compiled.usual->MemorySizeBytes() : 0);
  }

  Result<CompiledForm> compile_anew(const Constraint& form) {
    const Warnings warnings;
    const MaskRoom::Use room(room_);
    try {
      const Budget budget(limits::compile_seconds_max);
      auto compiled = compiled_by_kind(form);
      if (warnings.said.empty() && !has_text(compiled))
        return fail(ErrorCode::invalid_argument, "no text has the form", "mend it");
      if (warnings.said.empty())
        return CompiledForm{compiled, compiled_as_usual(form)};
      return fail(ErrorCode::unsupported,
                  "the form asks for what answers would not be held to: " +
                      text::shown(warnings.said.front(), 200),
                  "leave that out of it");
    } catch (const std::bad_alloc&) {
      throw; // as everywhere in the engine
    } catch (const std::exception& error) {
      return fail(ErrorCode::invalid_argument, "the form is none: " + told(error), "mend it");
    }
  }

  xgrammar::CompiledGrammar compiled_by_kind(const Constraint& form) {
    using Kind = Constraint::Kind;
    xgrammar::GrammarCompiler& compiler = this->compiler();
    switch (form.kind) {
    case Kind::json: return schema(any_object, false, form.any_whitespace);
    case Kind::json_schema: return schema(form.text, true, form.any_whitespace);
    case Kind::regex: return compiler.CompileRegex(form.text);
    case Kind::choice: return compiler.CompileGrammar(grammar_of(form.choices));
    case Kind::grammar: return compiler.CompileGrammar(form.text);
    case Kind::structural_tag: break;
    }
    return compiler.CompileStructuralTag(form.text);
  }

  /// Compiles JSON with one blank behind each comma and colon, and no others. Only guesses are made
  /// by it, so an error is no matter.
  std::optional<xgrammar::CompiledGrammar> compiled_as_usual(const Constraint& form) {
    using Kind = Constraint::Kind;
    if (!form.any_whitespace)
      return std::nullopt; // the form itself is like this
    const Warnings warnings;
    try {
      switch (form.kind) {
      case Kind::json: return schema(any_object, false, false);
      case Kind::json_schema: return schema(form.text, true, false);
      default: return std::nullopt;
      }
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  xgrammar::GrammarCompiler& compiler() {
    if (!compiler_) {
      compiler_.emplace(sorted(vocabulary_), 1, false);
      ahead_.emplace(1);
    }
    return *compiler_;
  }

  xgrammar::CompiledGrammar schema(const std::string& text, bool strict, bool any_blanks) {
    return compiler().CompileJSONSchema(text, any_blanks, std::nullopt, std::nullopt, strict,
                                        limits::whitespace_max);
  }

  static constexpr const char* any_object = R"({"type":"object"})";
  const Vocabulary vocabulary_;
  const std::shared_ptr<MaskRoom> room_ = std::make_shared<MaskRoom>(limits::string_masks_kept);

  std::mutex compile_mutex_; ///< Guards the two below, which exist once a form was asked for.
  std::optional<xgrammar::GrammarCompiler> compiler_;
  std::optional<boost::asio::thread_pool> ahead_;

  std::mutex kept_mutex_;
  std::vector<Kept> kept_; ///< The last one asked for comes first.
  std::size_t kept_bytes_ = 0;
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
  return std::make_shared<AnswerForm>(*compiled, state_->vocabulary(), state_->tokenizer(),
                                      [state = std::weak_ptr(state_)](std::function<void()> work) {
                                        if (const auto alive = state.lock())
                                          alive->later(std::move(work));
                                      });
}

} // namespace paceline::constraints
