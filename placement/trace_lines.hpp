// Lines of a trace, and the fields of a line.
#pragma once

#include "base/parse_number.hpp"
#include "paceline/error.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::placement {

/// Goes through the lines of a text, which must outlive it.
class TraceLines {
public:
  explicit TraceLines(std::string_view text) : text_(text) {}

  std::optional<std::string_view> next() {
    if (text_.empty())
      return std::nullopt;
    ++number_;
    std::string_view line = text_.substr(0, text_.find('\n'));
    text_.remove_prefix(std::min(line.size() + 1, text_.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    return line;
  }
  /// Returns the number of the last line, counted from 1.
  int number() const { return number_; }
  /// Returns an error about the last line.
  tl::unexpected<Error> complain(const std::string& what, const std::string& hint) const {
    return fail(ErrorCode::corrupt, fmt::format("line {}: {}", number_, what), hint);
  }

private:
  std::string_view text_;
  int number_ = 0;
};

/// Returns the first field, and what is behind its comma.
inline std::pair<std::string_view, std::string_view> cut(std::string_view line) {
  const std::string_view field = line.substr(0, line.find(','));
  line.remove_prefix(std::min(field.size() + 1, line.size()));
  return {field, line};
}

/// Returns the number that all of the text is; none: it is none, or not finite.
inline std::optional<double> number(std::string_view text) {
  const auto value = base::parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

} // namespace paceline::placement
