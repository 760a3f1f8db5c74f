#include "base/number_field.hpp"

#include <cstdint>
#include <fmt/format.h>

namespace paceline::base {

std::string NumberRange::wanted() const {
  return whole
             ? fmt::format("a whole number from {} to {}", std::int64_t(least), std::int64_t(most))
             : fmt::format("a number from {} to {}", least, most);
}

std::string NumberRange::shown(double number) const {
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{}", float(number));
}

Result<void> check_number(std::string_view path, const NumberRange& range, double value) {
  if (range.allows(value))
    return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", path, range.shown(value)),
              "give " + range.wanted());
}

} // namespace paceline::base
