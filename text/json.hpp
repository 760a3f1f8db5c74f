// Reads JSON made by strangers: bounded, by typed fields, with names that are fit to be shown.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace paceline::text {

/// Makes a name from a file fit for a message: one line, short, printable.
std::string shown(std::string_view name, std::size_t longest = 80);
/// Makes a path fit for a message, and never cuts it.
inline std::string shown_path(std::string_view path) {
  return shown(path, path.size());
}

/// Parses a text that must be an object, within limits.hpp's bounds. where: for messages, such as a
/// file's path (shown_path).
Result<boost::json::object> parse_json_object(const std::string& where, std::string_view json);

/// Returns a text in which words that Python writes for numbers, and JSON does not have, have
/// become objects, as `transformers` writes them: Infinity is {"__float__": "Infinity"}.
std::string with_tagged_numbers(std::string_view json);

/// A file's own names for keys that JSON files call otherwise.
using Spellings = std::map<std::string, std::string, std::less<>>;

/// Reads typed fields of one object; remembers the first that is wrong. Every getter gives some
/// value in range, so that all can be read before `error` is asked.
class JsonFields {
public:
  /// where: for messages, such as "config.json". spellings: the file's own names for keys, which
  /// messages use. `object` must outlive this object.
  JsonFields(std::string where, const boost::json::object& object, Spellings spellings = {})
      : where_(std::move(where)), object_(&object), spellings_(std::move(spellings)) {}

  /// Returns null if the key is absent or JSON's null.
  const boost::json::value* find(std::string_view key);
  /// Does the same unless the key was already asked for.
  const boost::json::value* unread(std::string_view key);
  /// Returns whether the key is there, even with null.
  bool says(std::string_view key) const { return object_->contains(key); }
  /// These return a typed field. Without a fallback the field is required.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, double low, double high, std::optional<double> fallback = {});
  bool boolean(std::string_view key, bool fallback);
  std::string string(std::string_view key, std::string_view fallback);

  void wrong(ErrorCode code, std::string what, std::string hint);
  /// Remembers an error in a part of this object.
  void fail(const Error& error) {
    if (!error_)
      error_ = error;
  }
  const std::string& where() const { return where_; }
  /// Returns the file's name for a key.
  std::string_view spelled(std::string_view key) const {
    const auto at = spellings_.find(key);
    return at == spellings_.end() ? key : std::string_view(at->second);
  }
  const Spellings& spellings() const { return spellings_; }
  const std::optional<Error>& error() const { return error_; }

private:
  std::string where_;
  const boost::json::object* object_;
  Spellings spellings_;
  std::set<std::string, std::less<>> asked_;
  std::optional<Error> error_;
};

} // namespace paceline::text
