#include "text/chat_template/lexer.hpp"

#include "text/chat_template/failure.hpp"
#include "text/chat_template/strings.hpp"
#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool goes_on_name(char c) {
  return starts_name(c) || is_digit(c);
}
int hex_value(char c) {
  if (is_digit(c))
    return c - '0';
  const char low = char(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// Makes all line ends "\n", and drops one at the end of the source.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      i += source.substr(i).starts_with("\r\n") ? 1 : 0;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n'))
    out.pop_back();
  return out;
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : source_(with_plain_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size())
      read_part();
    add(Token::Kind::end, "");
    return std::move(out_);
  }

private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char look(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void advance(std::size_t bytes) {
    line_ += int(std::count(source_.begin() + std::ptrdiff_t(at_),
                            source_.begin() + std::ptrdiff_t(at_ + bytes), '\n'));
    at_ += bytes;
  }
  void add(Token::Kind kind, std::string text) { out_.push_back({kind, std::move(text), line_}); }

  /// Reads text up to a tag, and the tag.
  void read_part() {
    std::size_t begin = at_;
    do {
      begin = source_.find('{', begin);
      if (begin == source_.npos || begin + 1 == source_.size())
        return add_text(source_.size(), '+', false);
    } while (!is_one_of(source_[begin + 1], "%{#") && ++begin);
    const char kind = source_[begin + 1];
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    add_text(begin, sign, kind != '{');
    advance(2);
    if (look() == '-' || look() == '+')
      advance(1);
    if (kind == '#')
      return skip_comment();
    if (kind == '%' && read_raw())
      return;
    read_tag(kind == '%');
  }
  static bool is_one_of(char c, std::string_view those) {
    return c != '\0' && those.find(c) != those.npos;
  }

  /// Adds the text from here to `end`, where a tag begins with `sign`. "-" removes white space
  /// before the tag, "+" keeps it; else the indentation of a `block` on a line of its own is
  /// removed.
  void add_text(std::size_t end, char sign, bool block) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip(text, Side::right);
    } else if (sign != '+' && block) {
      const std::size_t line = text.rfind('\n') + 1;
      if ((line > 0 || at_line_start_) && strip(text.substr(line), Side::left).empty())
        text = text.substr(0, line);
    }
    if (!text.empty())
      add(Token::Kind::text, std::string(text));
    advance(end - at_);
  }

  /// Ends a tag, whose end may have a sign ("-", "+"), and skips white space behind it.
  void end_tag(std::size_t bytes, char sign, bool block) {
    advance(bytes);
    at_line_start_ = false;
    std::size_t skipped = 0;
    if (sign == '-')
      skipped = rest().size() - strip(rest(), Side::left).size();
    else if (sign != '+' && block && look() == '\n')
      skipped = 1;
    advance(skipped);
    at_line_start_ = skipped > 0 && source_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == source_.npos)
      mistake("a comment has no end", line_);
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end - at_);
    end_tag(2, sign, true);
  }

  /// Reads {% raw %} ... {% endraw %}: text as it is. Behind the first tag only "-" removes white
  /// space.
  bool read_raw() {
    const std::string_view tag = strip(rest(), Side::left);
    const std::string_view behind = tag.starts_with("raw") ? strip(tag.substr(3), Side::left) : "";
    const bool stripped = behind.starts_with("-%}");
    if (!stripped && !behind.starts_with("%}"))
      return false;
    advance(rest().size() - behind.size());
    end_tag(stripped ? 3 : 2, stripped ? '-' : '+', true);
    for (std::size_t begin = at_; (begin = source_.find("{%", begin)) != source_.npos; ++begin) {
      const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
      std::string_view word = std::string_view(source_).substr(begin + 2);
      if (is_one_of(sign, "+-"))
        word.remove_prefix(1);
      word = strip(word, Side::left);
      if (!word.starts_with("endraw"))
        continue;
      word = strip(word.substr(6), Side::left);
      const bool marked = word.starts_with("-%}") || word.starts_with("+%}");
      if (!marked && !word.starts_with("%}"))
        continue;
      add_text(begin, sign, true);
      advance(rest().size() - word.size());
      end_tag(marked ? 3 : 2, marked ? word[0] : '\0', true);
      return true;
    }
    mistake("a raw block has no endraw", line_);
  }

  void read_tag(bool block) {
    add(block ? Token::Kind::begin_block : Token::Kind::begin_print, "");
    const std::string_view end = block ? "%}" : "}}";
    for (std::string open;;) {
      advance(rest().size() - strip(rest(), Side::left).size());
      if (at_ == source_.size())
        mistake(fmt::format("a tag has no {}", end), line_);
      const bool signed_end =
          is_one_of(look(), block ? "+-" : "-") && rest().substr(1).starts_with(end);
      if (open.empty() && (signed_end || rest().starts_with(end))) {
        add(block ? Token::Kind::end_block : Token::Kind::end_print, "");
        return end_tag(signed_end ? 3 : 2, signed_end ? look() : '\0', block);
      }
      read_token(open);
    }
  }

  /// open: the brackets that have not been closed.
  void read_token(std::string& open) {
    const char c = look();
    if (starts_name(c) ||
        (static_cast<unsigned char>(c) >= 0x80 && is_word(first_character(rest()).point)))
      return read_name();
    if (is_digit(c))
      return read_number();
    if (c == '\'' || c == '"')
      return read_string(c);
    constexpr std::array two{"//", "**", "==", "!=", ">=", "<="};
    for (const char* symbol : two)
      if (rest().starts_with(symbol)) {
        add(Token::Kind::symbol, symbol);
        return advance(2);
      }
    if (!is_one_of(c, "+-/*%~[](){}<>=.:|,"))
      mistake(fmt::format("unexpected character {}",
                          quoted(rest().substr(0, first_character(rest()).size))),
              line_);
    track(c, open);
    add(Token::Kind::symbol, std::string(1, c));
    advance(1);
  }
  void track(char c, std::string& open) const {
    if (is_one_of(c, "([{"))
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (!is_one_of(c, ")]}"))
      return;
    if (!open.ends_with(c))
      mistake(fmt::format("unexpected '{}'", c), line_);
    open.pop_back();
  }

  void read_name() {
    std::size_t size = 0;
    while (at_ + size < source_.size()) {
      const Character c = first_character(rest().substr(size));
      if (!(c.size == 1 ? goes_on_name(char(c.point)) : is_word(c.point)))
        break;
      size += c.size;
    }
    add(Token::Kind::name, std::string(rest().substr(0, size)));
    advance(size);
  }

  /// Passes over digits, and single underscores between them, from `size` on.
  void pass_digits(std::size_t& size, std::string_view digits, bool any_first = false) const {
    const auto is = [&](std::size_t i) {
      return is_one_of(char(is_digit(look(i)) ? look(i) : look(i) | 0x20), digits);
    };
    if (any_first && look(size) == '_' && is(size + 1))
      ++size;
    while (is(size) || (size > 0 && look(size) == '_' && is(size + 1)))
      ++size;
  }

  void read_number() {
    constexpr std::string_view decimal = "0123456789";
    const bool member = !out_.empty() && out_.back().kind == Token::Kind::symbol &&
                        out_.back().text == "."; // like the 0 in loop.0.1
    std::size_t size = 0;
    pass_digits(size, decimal);
    const std::size_t whole = size;
    if (!member && look(size) == '.' && is_digit(look(size + 1))) {
      ++size;
      pass_digits(size, decimal);
    }
    const std::size_t sign = is_one_of(look(size + 1), "+-") ? 1 : 0;
    if (!member && (look(size) | 0x20) == 'e' && is_digit(look(size + 1 + sign))) {
      size += 1 + sign;
      pass_digits(size, decimal);
    }
    if (size == whole)
      size = integer_size(whole);
    std::string text(rest().substr(0, size));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    const bool other_base = look(1) == 'x' || look(1) == 'X';
    const bool real = size > whole && !other_base && text.find_first_of(".eE") != text.npos;
    add(real ? Token::Kind::real : Token::Kind::integer, std::move(text));
    advance(size);
  }
  /// Returns the size of the number here: 0x1F, 0o17, 0b1, 12, or zeros; a digit behind a zero
  /// begins a new one.
  std::size_t integer_size(std::size_t decimal) const {
    if (look() != '0')
      return decimal;
    const char base = char(look(1) | 0x20);
    std::size_t size = 2;
    pass_digits(size, base == 'x' ? "0123456789abcdef" : base == 'o' ? "01234567" : "01", true);
    if (is_one_of(base, "xob") && size > 2)
      return size;
    size = 0;
    pass_digits(size, "0");
    return size;
  }

  void read_string(char quote) {
    const int line = line_;
    std::string text;
    advance(1);
    while (look() != quote) {
      if (at_ == source_.size())
        mistake("a string has no end", line);
      if (look() == '\\') {
        read_escape(text);
      } else {
        text += look();
        advance(1);
      }
    }
    advance(1);
    add(Token::Kind::string, std::move(text));
  }

  /// Reads an escape as in Python's source.
  void read_escape(std::string& text) {
    const char c = look(1);
    constexpr std::string_view names = "abfnrtv\\'\"";
    constexpr std::string_view meanings = "\a\b\f\n\r\t\v\\'\"";
    const std::size_t known = c == '\0' ? names.npos : names.find(c);
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (known != names.npos) {
      text += meanings[known];
      return advance(2);
    }
    if (c == '\n') // the line goes on
      return advance(2);
    if (digits > 0)
      return read_hex_escape(digits, text);
    if (c == 'N')
      unsupported("a character by its name (\\N)", line_);
    if (c >= '0' && c <= '7')
      return read_octal_escape(text);
    text += '\\';
    advance(1);
  }
  void read_hex_escape(std::size_t digits, std::string& text) {
    std::uint32_t point = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const int value = hex_value(look(2 + i));
      if (value < 0)
        mistake("a string has an incomplete escape", line_);
      point = point << 4 | std::uint32_t(value);
    }
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
      mistake("a string has an escape that is no character", line_);
    append_character(char32_t(point), text);
    advance(2 + digits);
  }
  void read_octal_escape(std::string& text) {
    std::size_t size = 1;
    char32_t point = 0;
    for (; size < 4 && look(size) >= '0' && look(size) <= '7'; ++size)
      point = point * 8 + char32_t(look(size) - '0');
    append_character(point, text);
    advance(size);
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> out_;
};

} // namespace

std::vector<Token> tokens_of(std::string_view source) {
  return Lexer(source).run();
}

} // namespace paceline::text::jinja
