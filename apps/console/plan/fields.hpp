// Fields of a TOML table, each read once; unknown fields and wrong values are errors with their
// line.
#pragma once

#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <toml++/toml.h>
#include <vector>

namespace paceline::apps::plan {

/// An error in a file: thrown while the file is read, and made an Error by `read_toml`.
struct Wrong {
  toml::source_region at;
  std::string what;
  std::string hint;
};

/// The fields of one table. Numbers are in the file's units; a field that is missing is none.
class Fields {
public:
  /// where: the table's name in messages, such as "[devices]". The table outlives this.
  Fields(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  std::optional<double> number(const char* name, double low, double high);
  std::optional<std::int64_t> whole(const char* name, std::int64_t low, std::int64_t high);
  std::optional<std::string> text(const char* name);
  /// Returns bytes, from a number, or a text such as "16G" (G, GB and GiB are 2^30).
  std::optional<std::uint64_t> memory(const char* name);
  std::vector<std::string> texts(const char* name);
  std::vector<double> numbers(const char* name, double low, double high);
  /// Returns a table below this one.
  const toml::table* table(const char* name);
  /// Returns the tables in a list.
  std::vector<const toml::table*> tables(const char* name);

  /// Returns the value, or throws an error that says how to give it.
  template <class T>
  T required(const char* name, std::optional<T> value, const char* hint) const {
    if (!value)
      throw Wrong{table_.source(), where_ + " has no " + name, hint};
    return *value;
  }
  /// Throws an error about a field.
  [[noreturn]] void wrong(const char* name, const std::string& what, const std::string& hint) const;
  /// Throws an error about fields that nobody read. To be called last.
  void end() const;
  const toml::source_region& source() const { return table_.source(); }

private:
  const toml::node* find(const char* name);

  const toml::table& table_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

/// Returns the field of what 2, 4, 8, ... requests at once take, over `alone`, which one takes
/// (placement::StageCosts::growth). Errors: one is less than the one before, or more than twice
/// that.
std::vector<double> read_growth(Fields& fields, const char* name, double alone);
/// Returns the field `contention` (placement::Devices), 1 where there is none.
double read_contention(Fields& fields);

/// Reads a text that came from `file` by `read`, which throws `Wrong`. Errors (`corrupt`): "FILE,
/// line N: what is wrong: how to mend it".
Result<void> read_toml(const std::string& text, const std::string& file,
                       const std::function<void(const toml::table&)>& read);

} // namespace paceline::apps::plan
