// One part of tokenizer.json (a normalizer, a decoder ...): its fields, and errors that name it.
#pragma once

#include "paceline/error.hpp"
#include "text/json.hpp"

#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::text {

/// Refers to the JSON that it was made from.
class Part {
public:
  /// path: the file's, as shown in messages. kind: such as "normalizer".
  Part(std::string path, std::string kind, const boost::json::object& object);

  /// Calls `step` for the steps of a part in order: the part itself, or those of a Sequence
  /// (`list`: the key of its steps), however nested. An absent part or null has none.
  using Step = std::function<Result<void>(Part&)>;
  static Result<void> for_each(const std::string& path, const std::string& kind,
                               const boost::json::value* part, std::string_view list,
                               const Step& step);

  const std::string& path() const { return path_; }
  const std::string& type() const { return type_; }
  const boost::json::object& object() const { return *object_; }
  /// Gives typed access; `finish` reports a field of the wrong type.
  JsonFields& fields() { return fields_; }
  /// Returns a string that must be there.
  std::string text(std::string_view key);
  /// Returns a string of one character that must be there.
  std::string character(std::string_view key);

  /// Returns what was wrong with a field, if anything.
  Result<void> finish() const;
  /// Makes the error that this part, or something it asks for, is not known here.
  tl::unexpected<Error> refuse(std::string_view what = {}) const;
  /// Makes the error that the file is damaged.
  tl::unexpected<Error> wrong(std::string_view what) const;

private:
  std::string path_;
  std::string kind_;
  const boost::json::object* object_;
  std::string type_;
  JsonFields fields_;
};

/// The hints of errors about tokenizer.json.
extern const char* const damaged_tokenizer_hint;
extern const char* const other_tokenizer_hint;

} // namespace paceline::text
