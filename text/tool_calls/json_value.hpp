// Values of calls that are not written as JSON, made JSON.
#pragma once

#include "text/limits.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::text {

inline std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

/// Makes JSON of a number, of one of Python's constants, which templates show models, or of what
/// is JSON already. Empty: there is no such value.
inline std::optional<std::string> json_of(std::string_view written) {
  for (const auto& [python, constant] :
       {std::pair("True", "true"), std::pair("False", "false"), std::pair("None", "null")})
    if (written == python)
      return constant;
  boost::json::error_code failed;
  boost::json::parse_options options;
  options.max_depth = limits::json_depth_max;
  const boost::json::value read = boost::json::parse(written, failed, {}, options);
  return failed ? std::nullopt : std::optional(std::string(written));
}

} // namespace paceline::text
