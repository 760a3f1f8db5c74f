// The values of a template: Python's, as far as templates see them.
#pragma once

#include "text/chat_template/failure.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::text::jinja {

class Value;
struct Statement;

/// The value of a name or a member that does not exist.
struct Undefined {
  std::string what; ///< "'name' is undefined", for messages.
};
struct None {};
using List = std::vector<Value>;
using Members = std::vector<std::pair<std::string, Value>>; ///< Values by name.
using Entries = std::vector<std::pair<Value, Value>>;       ///< Entries of a dict.
struct ListValue;
struct DictValue;
struct Callable;
/// An object that changes while a template is followed. The interpreter owns these, so that cycles
/// do not leak.
struct Object {
  virtual ~Object() = default;
};
struct Namespace;
struct LoopValue;
struct Iterator;
struct Counter;
class Scope;

/// A value. Immutable and cheap to copy.
class Value {
public:
  Value() : data_(Undefined{}) {}
  explicit Value(Undefined undefined) : data_(std::move(undefined)) {}
  explicit Value(None) : data_(None{}) {}
  explicit Value(bool x) : data_(x) {}
  explicit Value(std::int64_t x) : data_(x) {}
  explicit Value(double x) : data_(x) {}
  explicit Value(std::string x) : data_(std::make_shared<const std::string>(std::move(x))) {}
  explicit Value(std::string_view x) : Value(std::string(x)) {}
  explicit Value(const char* x) : Value(std::string(x)) {}
  explicit Value(Namespace* x) : data_(x) {}
  explicit Value(LoopValue* x) : data_(x) {}
  explicit Value(Iterator* x) : data_(x) {}
  explicit Value(Counter* x) : data_(x) {}
  explicit Value(Callable x);
  explicit Value(ListValue x);
  static Value list(List items);
  static Value tuple(List items);
  static Value dict(Members members);
  static Value dict_of(Entries entries);
  /// Makes a text in which HTML's special characters are meant as such (Python's Markup).
  static Value markup(std::string text);
  static Value count(std::size_t n) { return Value(std::int64_t(n)); }

  bool undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool none() const { return std::holds_alternative<None>(data_); }
  /// These return null if the value is something else.
  const std::string* text() const { return pointer<const std::string>(); }
  const ListValue* list() const { return pointer<const ListValue>(); }
  const DictValue* dict() const { return pointer<const DictValue>(); }
  const Callable* callable() const { return pointer<const Callable>(); }
  LoopValue* loop() const { return object<LoopValue>(); }
  Namespace* space() const { return object<Namespace>(); }
  Iterator* iterator() const { return object<Iterator>(); }
  Counter* counter() const { return object<Counter>(); }
  bool is_markup() const { return markup_; }
  /// These tell tuples and lists from Python's other sequences.
  bool is_tuple() const;
  bool is_plain_list() const;
  const Undefined* missing() const { return std::get_if<Undefined>(&data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  bool number() const { return integer() || real() || boolean(); }

private:
  template <class T>
  T* object() const {
    const auto* found = std::get_if<T*>(&data_);
    return found ? *found : nullptr;
  }
  template <class T>
  T* pointer() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&data_);
    return shared ? shared->get() : nullptr;
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const ListValue>, std::shared_ptr<const DictValue>,
               std::shared_ptr<const Callable>, Namespace*, LoopValue*, Iterator*, Counter*>
      data_;
  bool markup_ = false;
};

/// The arguments of Python's range.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

/// A list, or another of Python's sequences.
struct ListValue {
  enum class Kind { list, tuple, range, keys, values, items };
  List items;
  Kind kind = Kind::list;
  Range range{};
  std::vector<std::string> names{}; ///< Names of a tuple's items, if they have some.
  int depth = 1;                    ///< Depth to which lists and dicts are nested.
};

/// A dict, in order of insertion.
struct DictValue {
  Entries entries;
  int depth = 1;
  /// Fails if the value cannot be a key.
  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;
};

struct Namespace : Object {
  Members members;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// Gives its items once, when they are asked for: the result of `map` and similar filters.
struct Iterator : Object {
  std::function<std::optional<Value>()> next;
  const char* type = "generator";
};

/// A cycler or a joiner.
struct Counter : Object {
  enum class Kind { cycler, joiner };
  Kind kind = Kind::cycler;
  List items; ///< Items of a cycler; the text that a joiner puts between.
  std::size_t at = 0;
};

/// A macro, a function of the language, or a method with its object.
struct Callable {
  std::string name;
  Value self;                       ///< Object of a method; undefined: it is not a method.
  const Statement* macro = nullptr; ///< Null: it is not a macro.
  const Scope* scope = nullptr;     ///< Scope in which the macro was defined.
};

const char* type_name(const Value& value); ///< Python's name of the type.
bool truth(const Value& value);
void check_defined(const Value& value); ///< Fails where the value is undefined.
/// Converts a value as Python does for output.
std::string to_text(const Value& value, Budget& budget);
/// The arguments of Python's json.dumps.
struct JsonStyle {
  std::optional<std::string> indent; ///< Indentation of each level; none: all is one line.
  std::string between_items = ", ";
  std::string behind_key = ": ";
  bool ascii = false; ///< Escapes what is not ASCII.
  bool sorted = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);
/// These are in compare.cpp.
bool equal(const Value& a, const Value& b, Budget& budget);
/// Returns a < b; texts, numbers and lists have an order.
bool less(const Value& a, const Value& b, Budget& budget);
/// Implements Python's `is`: both are one object. Numbers are the same if type and value are.
bool same(const Value& a, const Value& b);
/// Fails if the value cannot be a dict's key.
void check_key(const Value& value);
/// Sets the value of a key, in its place or at the end.
void set_entry(Entries& entries, const Value& key, Value value, Budget& budget);

/// Returns whether Python would iterate over it.
bool iterable(const Value& value);
/// Returns what `length` counts.
std::size_t length(const Value& value);
double as_real(const Value& number);
/// Returns a whole number (also of a boolean), or fails: `what` should have been one.
std::int64_t as_integer(const Value& value, const char* what);
/// Returns the text that a value is, or fails.
const std::string& as_text(const Value& value, const char* what);

} // namespace paceline::text::jinja
