// Follows a template.
#pragma once

#include "text/chat_template/syntax.hpp"

#include <ctime>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text::jinja {

/// What a function, filter or test was called with.
class Arguments {
public:
  explicit Arguments(std::string of, List positional = {}, Members named = {})
      : of_(std::move(of)), positional_(std::move(positional)), named_(std::move(named)) {}

  /// The next one by position, else the one with this name, if any.
  std::optional<Value> take(std::string_view name);
  Value require(std::string_view name);
  /// All that are left by position.
  List take_rest();
  Members take_named() { return std::exchange(named_, {}); }
  /// A mistake when any was not taken.
  void finish() const;

private:
  std::string of_;
  List positional_;
  Members named_;
  std::size_t next_ = 0;
};

/// Names and what they are, within the names around them.
class Scope {
public:
  explicit Scope(const Scope* around) : around_(around) {}
  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;

private:
  const Scope* around_;
  std::vector<std::pair<std::string, Value>> own_;
};

/// For one rendering. Throws Failure.
class Interpreter {
public:
  explicit Interpreter(const std::tm& now) : now_(now) {}

  std::string run(const Template& followed, Members&& globals);
  int line() const { return line_; } ///< That was followed last.

  // What functions, filters and tests need.
  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }
  Namespace* make_namespace(Members&& members);
  Value call(const Value& callee, Arguments arguments);

private:
  enum class Flow { on, next, leave };

  Flow follow(const Body& body, Scope& scope);
  Flow follow(const Statement& statement, Scope& scope);
  Flow follow_choice(const Statement& statement, Scope& scope);
  Flow follow_loop(const Statement& statement, Scope& scope);
  List loop_items(const Statement& statement, const Scope& scope);
  void capture(const Statement& statement, Scope& scope);
  std::string printed(const Body& body, Scope& scope);
  void print(std::string_view text);
  void assign(const Target& target, const Value& value, Scope& scope);

  Value evaluate(const Expression& e, const Scope& scope);
  Value part(const Expression& e, std::size_t i, const Scope& scope) {
    return evaluate(*e.parts[i], scope);
  }
  Value evaluate_list(const Expression& e, const Scope& scope);
  Value evaluate_dict(const Expression& e, const Scope& scope);
  Value evaluate_slice(const Expression& e, const Scope& scope);
  Value evaluate_comparison(const Expression& e, const Scope& scope);
  Value evaluate_join(const Expression& e, const Scope& scope);
  bool compare(const std::string& how, const Value& a, const Value& b);
  Arguments arguments(const Expression& e, const std::string& of, const Scope& scope);
  Value call_macro(const Statement& macro, Arguments arguments);

  std::tm now_;
  Budget budget_;
  Scope globals_{nullptr};
  std::deque<Namespace> namespaces_;
  std::string out_;
  int line_ = 1;
  int depth_ = 0;
};

/// arithmetic.cpp
Value arithmetic(const std::string& symbol, const Value& a, const Value& b, Budget& budget);
Value slice(const Value& of, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
            std::int64_t step, Budget& budget);

/// members.cpp: `of.name` and `of[index]`; undefined when there is none.
Value member(const Value& of, const std::string& name, Budget& budget);
Value item(const Value& of, const Value& index, Budget& budget);

/// functions.cpp: what a name means that no scope knows; and calls of these, and of methods.
std::optional<Value> global_function(std::string_view name);
Value call_function(Interpreter& at, const std::string& name, Arguments& arguments);
/// methods.cpp
bool is_method(const Value& self, std::string_view name);
Value call_method(Interpreter& at, const Value& self, const std::string& name,
                  Arguments& arguments);

/// filters.cpp and tests.cpp
bool knows_filter(std::string_view name);
bool knows_test(std::string_view name);
Value apply_filter(Interpreter& at, const std::string& name, const Value& subject,
                   Arguments& arguments);
bool apply_test(Interpreter& at, const std::string& name, const Value& subject,
                Arguments& arguments);

} // namespace paceline::text::jinja
