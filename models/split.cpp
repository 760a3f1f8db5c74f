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

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

/// Where Oniguruma and PCRE2 mean different things by an escape: PCRE2's \s counts U+180E as a
/// space (Unicode, since 6.3, does not), its \h is a space and not a digit, and it has no \u.
std::string from_oniguruma(std::string_view pattern) {
  std::string out;
  while (!pattern.empty()) {
    const std::string_view escape = pattern.substr(0, pattern[0] == '\\' ? 2 : 1);
    pattern.remove_prefix(escape.size());
    if (escape == "\\s" || escape == "\\S") {
      out += escape == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
    } else if (escape == "\\h" || escape == "\\H") {
      out += escape == "\\h" ? "\\p{AHex}" : "\\P{AHex}";
    } else if (escape == "\\u" && pattern.size() >= 4 && is_hex(pattern.substr(0, 4))) {
      out += fmt::format("\\x{{{}}}", pattern.substr(0, 4));
      pattern.remove_prefix(4);
    } else {
      out += escape;
    }
  }
  return out;
}

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

} // namespace

const char* const gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<Splitter> Splitter::compile(const std::string& pattern, const std::string& where) {
  const std::string text = from_oniguruma(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!code)
    return fail(ErrorCode::unsupported,
                fmt::format("{}: cannot use the split expression {} ({})", where, shown(pattern),
                            message_of(error)),
                "use a tokenizer.json whose expressions PCRE2 reads");
  // Without JIT (an unusual processor) matching is slower, not different.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  Splitter splitter;
  splitter.code_ =
      std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
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
    const int found =
        pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), context.get());
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
