// Values of a template: Python's, as far as templates see them.
#pragma once

#include "text/chat_template/failure.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::text::jinja {

class Value;
struct Statement;

/// What a name or a member is that is not there.
struct Undefined {
  std::string what; ///< "'name' is undefined", for messages.
};
struct None {};
using List = std::vector<Value>;
using Members = std::vector<std::pair<std::string, Value>>;
struct ListValue;
struct DictValue;
struct LoopValue;
struct Callable;
/// The one thing that changes; the interpreter owns it, so that cycles are no leaks.
using Namespace = std::map<std::string, Value, std::less<>>;

/// Immutable and cheap to copy.
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
  explicit Value(LoopValue x);
  explicit Value(Callable x);
  static Value list(List items, bool tuple = false);
  static Value dict(Members members);
  static Value count(std::size_t n) { return Value(std::int64_t(n)); }

  bool undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool none() const { return std::holds_alternative<None>(data_); }
  /// Null when it is something else.
  const std::string* text() const { return pointer<const std::string>(); }
  const ListValue* list() const { return pointer<const ListValue>(); }
  const DictValue* dict() const { return pointer<const DictValue>(); }
  const LoopValue* loop() const { return pointer<const LoopValue>(); }
  const Callable* callable() const { return pointer<const Callable>(); }
  Namespace* space() const;
  const Undefined* missing() const { return std::get_if<Undefined>(&data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  bool number() const { return integer() || real() || boolean(); }

private:
  template <class T>
  T* pointer() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&data_);
    return shared ? shared->get() : nullptr;
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const ListValue>, std::shared_ptr<const DictValue>,
               std::shared_ptr<const LoopValue>, std::shared_ptr<const Callable>, Namespace*>
      data_;
};

struct ListValue {
  List items;
  bool tuple = false;
  int depth = 1; ///< How deep lists and dicts are nested.
};

/// In order of insertion. Keys are texts.
struct DictValue {
  Members members;
  int depth = 1;
  const Value* find(std::string_view key) const;
};

/// `loop` within one turn of a for.
struct LoopValue {
  Value items; ///< A list.
  std::size_t index = 0;
};

/// A macro, a function of the language's, or a method and what it is of.
struct Callable {
  std::string name;
  Value self;                       ///< Undefined: no method.
  const Statement* macro = nullptr; ///< Null: none.
};

const char* type_name(const Value& value); ///< As Python calls it.
bool truth(const Value& value);
/// As Python converts it for output.
std::string to_text(const Value& value, Budget& budget);
/// As Python's json.dumps has it, without escaping what is not ASCII. indent: -1: one line.
std::string to_json(const Value& value, int indent, Budget& budget);
bool equal(const Value& a, const Value& b, Budget& budget);
/// a < b; texts, numbers and lists have an order.
bool less(const Value& a, const Value& b, Budget& budget);
/// Whether `item` is in a list, a dict's keys or a text.
bool contains(const Value& container, const Value& item, Budget& budget);
/// What iterating over it gives: a list's items, a dict's keys, a text's characters.
List items_of(const Value& value, Budget& budget);
/// What `length` counts.
std::size_t length(const Value& value);
double as_real(const Value& number);
/// A whole number (also of a boolean), or a mistake that names `what` should have been one.
std::int64_t as_integer(const Value& value, const char* what);
/// The text that a value is, or a mistake.
const std::string& as_text(const Value& value, const char* what);

} // namespace paceline::text::jinja
