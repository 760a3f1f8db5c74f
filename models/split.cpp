#include "models/split.hpp"

#include "models/files.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <pcre2.h>

namespace paceline::models {
namespace {

struct FreeMatch {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatch>;

struct FreeContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
using MatchContext = std::unique_ptr<pcre2_match_context, FreeContext>;

struct FreeStack {
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
using JitStack = std::unique_ptr<pcre2_jit_stack, FreeStack>;

/// The expression as PCRE2 spells it, or what in it PCRE2 would read differently.
///
/// PCRE2's \s counts U+180E as a space (Unicode, since 6.3, does not), its \h is a space and not a
/// digit, it has no \u, and knows neither sets within sets nor words that hold combining marks.
class Translation {
public:
  explicit Translation(std::string_view pattern) {
    while (!pattern.empty() && different_.empty())
      pattern.remove_prefix(pattern[0] == '\\' ? escape(pattern) : plain(pattern));
  }
  const std::string& text() const { return text_; }
  const std::string& different() const { return different_; } ///< Empty: nothing.

private:
  std::size_t plain(std::string_view rest) {
    if (in_set_ && (rest[0] == '[' || rest.starts_with("&&")))
      different_ = "a set within a set";
    in_set_ = rest[0] == '[' || (in_set_ && rest[0] != ']');
    text_ += rest[0];
    return 1;
  }

  std::size_t escape(std::string_view rest) {
    const char kind = rest.size() > 1 ? rest[1] : '\0';
    const std::string_view digits = rest.substr(std::min<std::size_t>(2, rest.size()), 4);
    switch (kind) {
    case 's': text_ += "\\p{White_Space}"; return 2;
    case 'S': text_ += "\\P{White_Space}"; return 2;
    case 'h': text_ += "\\p{AHex}"; return 2;
    case 'H': text_ += "\\P{AHex}"; return 2;
    case 'w':
    case 'W':
    case 'b':
    case 'B': different_ = rest.substr(0, 2); return 2;
    case 'u':
      if (digits.size() == 4 && std::all_of(digits.begin(), digits.end(), is_hex)) {
        text_ += fmt::format("\\x{{{}}}", digits);
        return 6;
      }
      break;
    default: break;
    }
    text_ += rest.substr(0, 2);
    return std::min<std::size_t>(2, rest.size());
  }

  static bool is_hex(unsigned char c) { return std::isxdigit(c) != 0; }

  bool in_set_ = false;
  std::string text_;
  std::string different_;
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

} // namespace

const char* const gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<Splitter> Splitter::compile(const std::string& pattern, const std::string& where) {
  const Translation translation(pattern);
  const auto unusable = [&](const std::string& why) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("{}: cannot use the split expression {} ({})", where, shown(pattern), why),
        "use a tokenizer.json whose expressions PCRE2 reads as Oniguruma does");
  };
  if (!translation.different().empty())
    return unusable(translation.different() + " would mean something else here");
  const std::string& text = translation.text();
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!code)
    return unusable(message_of(error));
  std::shared_ptr<const void> owner(code, [code](const void*) { pcre2_code_free(code); });
  std::uint32_t may_be_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty)
    return unusable("it matches the empty text");
  // Without JIT (an unusual processor) matching is slower, not different.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  Splitter splitter;
  splitter.code_ = std::move(owner);
  return splitter;
}

void Splitter::split(std::string_view text, std::vector<std::string_view>& out) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const MatchData match(pcre2_match_data_create(1, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  JitStack stack; // the machine's stack does until an expression needs more
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (end > begin)
      out.push_back(text.substr(begin, end - begin));
  };
  std::size_t done = 0;
  std::size_t from = 0;
  while (from < text.size()) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  from, PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      stack.reset(pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      continue;
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    if (found < 0 || ends[0] < done || ends[1] <= ends[0])
      break;
    add(done, ends[0]);
    add(ends[0], ends[1]);
    done = from = ends[1];
  }
  add(done, text.size());
}

} // namespace paceline::models
