#include "text/tokenizer/regex.hpp"

#include "text/json.hpp"
#include "text/tokenizer/unicode.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <pcre2.h>

namespace paceline::text {
namespace {

bool is_hex(unsigned char c) {
  return std::isxdigit(c) != 0;
}

/// Translates an expression to PCRE2's syntax, or says what in it PCRE2 would read differently.
///
/// PCRE2's \s counts U+180E as a space (Unicode, since 6.3, does not), its \h is a space and not a
/// digit, its \w leaves out marks, its scripts include characters that they only share with others;
/// it has no \u, no sets within sets, and other meanings for (?m), {,n} and {n}+.
class Translation {
public:
  explicit Translation(std::string_view pattern) {
    while (!pattern.empty() && different_.empty())
      pattern.remove_prefix(pattern[0] == '\\' ? escape(pattern) : plain(pattern));
  }
  const std::string& text() const { return text_; }
  const std::string& different() const { return different_; } ///< Empty: nothing is different.
  /// Returns whether matches hang on properties of which later characters have any, as no spaces
  /// do.
  bool by_property() const { return by_property_; }

private:
  std::size_t plain(std::string_view rest) {
    if (in_set_ && (rest[0] == '[' || rest.starts_with("&&")))
      different_ = "a set within a set";
    if (!in_set_ && rest.starts_with("(?"))
      group(rest);
    if (!in_set_ && rest[0] == '{')
      repetition(rest);
    in_set_ = rest[0] == '[' || (in_set_ && rest[0] != ']');
    text_ += rest[0];
    return 1;
  }

  void group(std::string_view rest) {
    constexpr std::string_view alike[] = {"(?:",  "(?=",  "(?!",  "(?>",
                                          "(?<=", "(?<!", "(?i:", "(?i)"};
    if (std::none_of(std::begin(alike), std::end(alike),
                     [&](std::string_view start) { return rest.starts_with(start); }))
      different_ = rest.substr(0, 3);
  }

  void repetition(std::string_view rest) {
    const auto end = rest.find('}');
    if (rest.starts_with("{,") || (end != rest.npos && rest.substr(end + 1).starts_with("+")))
      different_ = rest.substr(0, end == rest.npos ? 2 : end + 2);
  }

  std::size_t escape(std::string_view rest) {
    const char kind = rest.size() > 1 ? rest[1] : '\0';
    by_property_ |= std::string_view("wWpPdD").find(kind) != std::string_view::npos;
    switch (kind) {
    case 's': return put("\\p{White_Space}", 2);
    case 'S': return put("\\P{White_Space}", 2);
    case 'h': return put("\\p{AHex}", 2);
    case 'H': return put("\\P{AHex}", 2);
    case 'v': return put("\\x{0B}", 2);
    case 'w': return put(in_set_ ? word : fmt::format("[{}{}]", word, latin_1_word), 2);
    case 'W':
      if (!in_set_)
        return put(fmt::format("[^{}{}]", word, latin_1_word), 2);
      break;
    case 'p':
    case 'P': return property(rest);
    case 'u':
    case 'x': return code_point(rest);
    default: break;
    }
    if (std::isalnum(static_cast<unsigned char>(kind)) != 0 &&
        std::string_view("dDnrtfaeAzZ").find(kind) == std::string_view::npos)
      different_ = rest.substr(0, 2);
    return put(rest.substr(0, 2), std::min<std::size_t>(2, rest.size()));
  }

  /// Translates a property; a name of more than two letters is that of a script.
  std::size_t property(std::string_view rest) {
    const auto end = rest.find('}');
    const std::size_t begin = rest.substr(2).starts_with("{^") ? 4 : 3;
    if (!rest.substr(2).starts_with("{") || end == rest.npos || end < begin) {
      different_ = rest.substr(0, 2);
      return rest.size();
    }
    const std::string_view name = rest.substr(begin, end - begin);
    return put(fmt::format("{}{}{}}}", rest.substr(0, begin), name.size() > 2 ? "sc:" : "", name),
               end + 1);
  }

  /// Translates \uHHHH, \x{H...}, and \xHH if it is ASCII: above that Oniguruma means a byte.
  std::size_t code_point(std::string_view rest) {
    const bool is_u = rest[1] == 'u';
    if (!is_u && rest.substr(2).starts_with("{"))
      return put(rest.substr(0, 2), 2);
    const std::string_view digits = rest.substr(2, is_u ? 4 : 2);
    if (digits.size() != (is_u ? 4u : 2u) || !std::all_of(digits.begin(), digits.end(), is_hex) ||
        (!is_u && digits[0] > '7')) {
      different_ = rest.substr(0, 2 + digits.size());
      return rest.size();
    }
    return put(fmt::format("\\x{{{}}}", digits), 2 + digits.size());
  }

  std::size_t put(std::string_view text, std::size_t read) {
    text_ += text;
    return read;
  }

  static constexpr const char* word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
  /// Outside sets Oniguruma uses a table for Latin-1, with its small digits and fractions.
  static constexpr const char* latin_1_word = R"(\xB2\xB3\xB9\xBC-\xBE)";
  bool in_set_ = false;
  bool by_property_ = false;
  std::string text_;
  std::string different_;
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct FreeMatch {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct FreeContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

} // namespace

Result<Regex> Regex::compile(const std::string& pattern, const std::string& where) {
  const Translation translation(pattern);
  const auto unusable = [&](const std::string& why) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: cannot use the expression {} ({})", where, shown(pattern), why),
                "use a tokenizer.json whose expressions PCRE2 reads as Oniguruma does");
  };
  if (!translation.different().empty())
    return unusable(shown(translation.different()) + " would mean something else here");
  const std::string& text = translation.text();
  int error = 0;
  PCRE2_SIZE at = 0;
  // Oniguruma's ^ and $ match at line ends.
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!code)
    return unusable(message_of(error));
  std::shared_ptr<const void> owner(code, [code](const void*) { pcre2_code_free(code); });
  std::uint32_t may_be_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty)
    return unusable("it matches the empty text");
  // Matching without JIT (on an unusual processor) is slower, with the same result.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  Regex regex;
  regex.code_ = std::move(owner);
  regex.by_property_ = translation.by_property();
  return regex;
}

struct RegexMatcher::State {
  std::unique_ptr<pcre2_match_data, FreeMatch> match{pcre2_match_data_create(1, nullptr)};
  // The thread's stack is used until an expression needs more.
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack;

  void give_more_stack() {
    context.reset(pcre2_match_context_create(nullptr));
    stack.reset(pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

RegexMatcher::RegexMatcher(const Regex& regex, std::string_view text)
    : code_(regex.code_.get()), text_(text), state_(std::make_unique<State>()) {
  // Ranges of characters mean these themselves, and no older ones in their place.
  if (regex.by_property_)
    older_ = for_unicode_14(text);
  if (older_)
    text_ = *older_;
}

RegexMatcher::~RegexMatcher() = default;

std::optional<Span> RegexMatcher::next() {
  if (from_ >= text_.size())
    return {};
  const auto find = [this] {
    return pcre2_match(static_cast<const pcre2_code*>(code_),
                       reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from_,
                       PCRE2_NO_UTF_CHECK, state_->match.get(), state_->context.get());
  };
  int found = find();
  if (found == PCRE2_ERROR_JIT_STACKLIMIT && !state_->stack) {
    state_->give_more_stack();
    found = find();
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state_->match.get());
  if (found < 0 || ends[0] < from_ || ends[1] <= ends[0]) {
    from_ = text_.size();
    return {};
  }
  from_ = ends[1];
  return Span{ends[0], ends[1]};
}

} // namespace paceline::text
