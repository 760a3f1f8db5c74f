// Files as strangers made them: bounded reads, JSON, and names fit to be shown.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace paceline::models {

/// A name out of a file for a message: one line, short, printable.
std::string shown(std::string_view name, std::size_t longest = 80);
/// The same for a path, which is never cut.
inline std::string shown_path(std::string_view path) {
  return shown(path, path.size());
}

/// A file mapped for reading. A file that shrinks while it is mapped is the user's own doing.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

private:
  MappedFile(std::string path, std::span<const std::byte> bytes);
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Begins to read a part of a mapped file that will soon be wanted, and does not wait for it.
void read_ahead(std::span<const std::byte> part);

/// Lets the whole pages within a part of a mapped file leave memory; what is read again is read
/// from the file again.
void release_pages(std::span<const std::byte> part);

/// A file's JSON object, within limits.hpp's bounds.
Result<boost::json::object> read_json_object(const std::string& path);

/// Reads typed fields of one object; remembers the first that is not what it should be. Every
/// getter gives some value in range, so that all can be read before `error` is asked.
class JsonFields {
public:
  /// where: for messages, such as "config.json". `object` must outlive this.
  JsonFields(std::string where, const boost::json::object& object)
      : where_(std::move(where)), object_(&object) {}

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
  const std::optional<Error>& error() const { return error_; }

private:
  std::string where_;
  const boost::json::object* object_;
  std::set<std::string, std::less<>> asked_;
  std::optional<Error> error_;
};

} // namespace paceline::models
