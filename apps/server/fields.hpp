// The fields of a JSON object, read strictly: a value of another type or out of range is an error
// that names the field.
#pragma once

#include "apps/server/errors.hpp"
#include "base/number_field.hpp"

#include <boost/json/object.hpp>
#include <boost/json/storage_ptr.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps::serve {

/// A reader of one JSON object. It keeps the first error, and all later readings may then be
/// ignored; so the caller asks for errors once, at the end. A field that is null counts as missing.
class Fields {
public:
  /// object: must outlive this. within: the object's name in errors, such as "stream_options".
  explicit Fields(const boost::json::object& object, std::string within = {})
      : object_(&object), within_(std::move(within)) {}

  const boost::json::value* find(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  /// Returns a number of the range; a whole one is written without a fraction.
  std::optional<double> number(std::string_view name, const base::NumberRange& range);
  std::optional<std::string> text(std::string_view name);
  const boost::json::object* nested(std::string_view name);

  /// Notes that `name` is not what it must be: "stop must be ...".
  void wrong(std::string_view name, const std::string& wanted);
  /// Takes over the error of a part of this object.
  void wrong(std::optional<ApiError> error);
  const std::optional<ApiError>& error() const { return error_; }
  std::string path(std::string_view name) const;

private:
  const boost::json::object* object_;
  std::string within_;
  std::optional<ApiError> error_;
};

/// Parses the text as a JSON object, within the limits of depth. memory: where the object lies; if
/// it runs out, the error says so.
ApiResult<boost::json::object> parse_object(const std::string& body,
                                            const boost::json::storage_ptr& memory = {});

} // namespace paceline::apps::serve
