// JSON as strangers made it: bounded, read by typed fields, and names in it fit to be shown.
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

/// A name out of a file for a message: one line, short, printable.
std::string shown(std::string_view name, std::size_t longest = 80);
/// The same for a path, which is never cut.
inline std::string shown_path(std::string_view path) {
  return shown(path, path.size());
}

/// The object that a text is, within limits.hpp's bounds. where: for messages, such as a file's
/// path (shown_path).
Result<boost::json::object> parse_json_object(const std::string& where, std::string_view json);

/// What a file calls what JSON calls otherwise.
using Spellings = std::map<std::string, std::string, std::less<>>;

/// Reads typed fields of one object; remembers the first that is not what it should be. Every
/// getter gives some value in range, so that all can be read before `error` is asked.
class JsonFields {
public:
  /// where: for messages, such as "config.json". spellings: of keys in messages, where the file has
  /// others. `object` must outlive this.
  JsonFields(std::string where, const boost::json::object& object, Spellings spellings = {})
      : where_(std::move(where)), object_(&object), spellings_(std::move(spellings)) {}

  /// Null when absent or JSON's null.
  const boost::json::value* find(std::string_view key);
  /// The same for a key that no other member was asked for.
  const boost::json::value* unread(std::string_view key);
  /// Whether the key is there, be it with null.
  bool says(std::string_view key) const { return object_->contains(key); }
  /// Without a fallback the field is required.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, double low, double high, std::optional<double> fallback = {});
  bool boolean(std::string_view key, bool fallback);
  std::string string(std::string_view key, std::string_view fallback);

  void wrong(ErrorCode code, std::string what, std::string hint);
  /// An error of a part of this object's.
  void fail(const Error& error) {
    if (!error_)
      error_ = error;
  }
  const std::string& where() const { return where_; }
  /// What the file calls a key.
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
