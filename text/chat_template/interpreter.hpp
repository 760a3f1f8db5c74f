// The interpreter of templates.
#pragma once

#include "text/chat_template/syntax.hpp"

#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text::jinja {

/// The arguments of a call of a function, filter or test.
class Arguments {
public:
  explicit Arguments(std::string of, List positional = {}, Members named = {})
      : of_(std::move(of)), positional_(std::move(positional)), named_(std::move(named)) {}

  /// Takes the next one by position, else the one with this name, if any.
  std::optional<Value> take(std::string_view name);
  Value require(std::string_view name);
  /// Takes the next one as a whole number, or `other` if there is none.
  std::int64_t integer(std::string_view name, std::int64_t other);
  bool boolean(std::string_view name, bool other);
  /// Takes all positional ones that are left.
  List take_rest();
  std::optional<Value> take_named(std::string_view name);
  bool has_rest() const { return next_ < positional_.size(); }
  Members take_named() { return std::exchange(named_, {}); }
  /// Fails if any argument was not taken.
  void finish() const;

private:
  std::string of_;
  List positional_;
  Members named_;
  std::size_t next_ = 0;
};

/// The values of names, within an outer scope.
class Scope : public std::enable_shared_from_this<Scope> {
public:
  explicit Scope(const Scope* around) : around_(around ? around->shared_from_this() : nullptr) {}
  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;

private:
  std::shared_ptr<const Scope> around_;
  std::vector<std::pair<std::string, Value>> own_;
};
using ScopeRef = std::shared_ptr<Scope>;

/// Gives a value's items, one per call.
using Pull = std::function<std::optional<Value>()>;

/// The `loop` within a for.
struct LoopValue : Object {
  Pull source;
  std::optional<std::size_t> size; ///< Size of the source, if it is known without looking.
  std::deque<Value> ahead;         ///< Items taken from the source before their turn.
  std::optional<Value> previous;
  std::optional<Value> current;
  std::optional<Value> changed; ///< The last argument of loop.changed.
  std::size_t turns = 0;        ///< Turns begun.
  std::int64_t depth = 1;
  const Statement* statement = nullptr;
  const Scope* around = nullptr; ///< Scope around a recursive loop.

  bool next(); ///< Goes on to the next item, if there is one.
  bool peek();
  std::size_t length();
};

/// Counts how deep a template is nested where it is followed: blocks, expressions, macros and lazy
/// items.
class Descent {
public:
  explicit Descent(int& depth);
  ~Descent() { --depth_; }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

private:
  int& depth_;
};

/// Renders a template, once. Throws Failure.
class Interpreter {
public:
  explicit Interpreter(const std::tm& now) : now_(now) {}

  std::string run(const Template& followed, Members&& globals);
  int line() const { return line_; } ///< The line followed last.

  // Functions, filters and tests use these.
  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }
  Value make_namespace(Members&& members);
  Value make_counter(Counter::Kind kind, List items);
  /// Makes an iterator, whose items are made when they are asked for.
  Value make_iterator(Pull next, const char* type = "generator");
  Value call(const Value& callee, Arguments arguments);

private:
  enum class Flow { on, next, leave };

  template <class T>
  T& own(std::size_t cost);
  static ScopeRef within(const Scope& around) { return std::make_shared<Scope>(&around); }

  // statements.cpp
  Flow follow(const Body& body, Scope& scope);
  Flow follow(const Statement& statement, Scope& scope);
  Flow follow_choice(const Statement& statement, Scope& scope);
  Flow follow_loop(const Statement& statement, Scope& scope);
  Flow follow_turns(const Statement& s, const Value& of, const Scope& scope, std::int64_t depth);
  Flow follow_with(const Statement& statement, const Scope& scope);
  Pull loop_items(const Statement& statement, const Value& of, const Scope& scope);
  Flow follow_captured(const Statement& statement, Scope& scope);
  std::string printed(const Body& body, Scope& scope);
  void print(std::string_view text);
  void assign(const Target& target, const Value& value, Scope& scope);
  void keep(const Scope& scope); ///< Keeps a scope to the end, for macros that look into it later.
  Value make_macro(const Statement& macro, const Scope& scope);
  Value call_macro(const Callable& callable, Arguments arguments);
  Value call_loop(LoopValue& loop, Arguments arguments);
  Value call_block(const std::string& name, Arguments arguments);

  // interpreter.cpp
  Value evaluate(const Expression& e, const Scope& scope);
  Value part(const Expression& e, std::size_t i, const Scope& scope) {
    return evaluate(*e.parts[i], scope);
  }
  Value evaluate_name(const Expression& e, const Scope& scope);
  Value evaluate_list(const Expression& e, const Scope& scope);
  Value evaluate_dict(const Expression& e, const Scope& scope);
  Value evaluate_slice(const Expression& e, const Scope& scope);
  Value evaluate_sign(const Expression& e, const Scope& scope);
  Value evaluate_call(const Expression& e, const Scope& scope, const Value* caller = nullptr);
  Value evaluate_comparison(const Expression& e, const Scope& scope);
  Value evaluate_join(const Expression& e, const Scope& scope);
  bool compare(const std::string& how, const Value& a, const Value& b);
  Arguments arguments(const Expression& e, const std::string& of, const Scope& scope,
                      const Value* caller = nullptr);

  std::tm now_;
  Budget budget_;
  const Template* template_ = nullptr;
  ScopeRef globals_ = std::make_shared<Scope>(nullptr);
  std::vector<std::shared_ptr<const Scope>> kept_; ///< Scopes that macros look into.
  std::deque<std::unique_ptr<Object>> objects_;
  std::string out_;
  int line_ = 1;
  int depth_ = 0;
};

/// These are in iteration.cpp. Iterating over a value gives a list's items, a dict's keys, or a
/// text's characters.
Pull iterate(const Value& value, Budget& budget);
List items_of(const Value& value, Budget& budget);
/// Returns whether `item` is in a list, a dict's keys or a text.
bool contains(const Value& container, const Value& item, Budget& budget);

/// These are in arithmetic.cpp.
Value arithmetic(const std::string& symbol, const Value& a, const Value& b, Budget& budget);
Value slice(const Value& of, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
            std::int64_t step, Budget& budget);

/// These are in members.cpp: `of.name` and `of[index]`; undefined if there is no such member.
Value member(const Value& of, const std::string& name, Budget& budget);
Value item(const Value& of, const Value& index, Budget& budget);
/// Returns what Python would find as an attribute; fails on undefined values.
std::optional<Value> attribute(const Value& of, const std::string& name);

/// These are in functions.cpp: the value of a name that no scope knows; and calls of functions and
/// of methods.
std::optional<Value> global_function(std::string_view name);
Value call_function(Interpreter& at, const std::string& name, Arguments& arguments);
/// These are in methods.cpp.
bool is_method(const Value& self, std::string_view name);
Value call_method(Interpreter& at, const Value& self, const std::string& name,
                  Arguments& arguments);

/// These are in percent_format.cpp and brace_format.cpp: `text % values`, and text.format(...).
Value percent_format(const std::string& format, const Value& values, Budget& budget);
Value brace_format(const std::string& format, const List& positional, const Members& named,
                   Budget& budget);

/// These are in filters.cpp and tests.cpp.
Value apply_filter(Interpreter& at, const std::string& name, const Value& subject,
                   Arguments& arguments);
/// True for all of Jinja's, even those that are not implemented here.
bool is_filter(std::string_view name);
bool apply_test(Interpreter& at, const std::string& name, const Value& subject,
                Arguments& arguments);
bool is_test(std::string_view name);

} // namespace paceline::text::jinja
