// Members of the library's structs as attributes of Python's classes.
#pragma once

#include "python/src/errors.hpp"
#include "python/src/names.hpp"

#include <chrono>
#include <cmath>
#include <nanobind/nanobind.h>
#include <nanobind/stl/chrono.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace paceline::python {

template <class T>
struct Inner {
  using type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using type = T;
};

template <class T>
inline constexpr bool is_duration = false;
template <class Rep, class Period>
inline constexpr bool is_duration<std::chrono::duration<Rep, Period>> = true;

template <class T>
inline constexpr const char* listed = nullptr;
template <>
inline constexpr const char* listed<std::vector<std::string>> = "a list of str";
template <>
inline constexpr const char* listed<std::vector<int>> = "a list of int";
template <>
inline constexpr const char* listed<std::vector<std::pair<TokenId, float>>> =
    "a number for each token";

/// Says what a field may be: "give 'off', 'sync' or None".
template <class Value>
std::string wanted() {
  using Plain = typename Inner<Value>::type;
  std::string text = "give ";
  if constexpr (std::is_enum_v<Plain>) {
    for (const auto& [value, name] : value_names<Plain>)
      text += (text.size() > 5 ? ", '" : "'") + std::string(name) + '\'';
  } else if constexpr (is_duration<Plain>) {
    text += "seconds (a number or a timedelta)";
  } else if constexpr (listed<Plain> != nullptr) {
    text += listed<Plain>;
  } else if constexpr (nanobind::detail::make_caster<Plain>::Name.type_count() == 0) {
    text += nanobind::detail::make_caster<Plain>::Name.text;
  } else {
    text += "a value of its type";
  }
  return text + (std::is_same_v<Plain, Value> ? "" : " or None");
}

/// Seconds may be whole numbers, too; those beyond a thousand years count as so many.
inline bool as_seconds(nanobind::handle& given, nanobind::object& kept) {
  if (!PyFloat_Check(given.ptr()) && !PyLong_Check(given.ptr()))
    return true;
  double seconds = PyFloat_AsDouble(given.ptr());
  if (PyErr_Occurred()) { // a whole number too large
    PyErr_Clear();
    return false;
  }
  if (std::isnan(seconds) || PyBool_Check(given.ptr()))
    return false;
  constexpr double most = 3e10;
  kept = nanobind::float_(std::fmin(std::fmax(seconds, -most), most));
  given = kept;
  return true;
}

/// What the header calls a struct whose fields callers set.
template <class Owner>
inline constexpr const char* owner_name = "";
template <>
inline constexpr const char* owner_name<Request> = "Request::";
template <>
inline constexpr const char* owner_name<EngineOptions> = "EngineOptions::";
template <>
inline constexpr const char* owner_name<FaultOptions> = "FaultOptions::";
template <>
inline constexpr const char* owner_name<NodeTls> = "NodeTls::";
template <>
inline constexpr const char* owner_name<Constraint> = "Constraint::";

/// Converts what a caller gave for a field, which is named if it cannot be.
template <class Owner, class Value>
Value converted(const char* name, nanobind::handle given) {
  Value value{};
  nanobind::object kept;
  bool fits = true;
  const nanobind::handle asked = given;
  if constexpr (is_duration<typename Inner<Value>::type>)
    fits = as_seconds(given, kept);
  if (!fits || !nanobind::try_cast<Value>(given, value)) {
    std::string shown = nanobind::repr(asked).c_str();
    if (shown.size() > 80)
      shown = "a " + nanobind::cast<std::string>(asked.type().attr("__name__"));
    raise({ErrorCode::invalid_argument, owner_name<Owner> + std::string(name) + " is " + shown,
           wanted<Value>()});
  }
  return value;
}

template <auto First, auto... Rest>
constexpr auto& member(auto& owner) {
  if constexpr (sizeof...(Rest) == 0)
    return owner.*First;
  else
    return member<Rest...>(owner.*First);
}

/// Adds a member as an attribute that can be set. Path: the member, through those that hold it.
template <auto... Path, class Owner>
void field(nanobind::class_<Owner>& type, const char* name) {
  using Value = std::remove_cvref_t<decltype(member<Path...>(std::declval<Owner&>()))>;
  type.def_prop_rw(
      name, [](const Owner& owner) -> Value { return member<Path...>(owner); },
      [name](Owner& owner, nanobind::typed<nanobind::object, Value> given) {
        member<Path...>(owner) = converted<Owner, Value>(name, given);
      });
}

/// Adds a member of a result, which is read alone.
template <auto Member, class Owner>
void shown(nanobind::class_<Owner>& type, const char* name) {
  using Value = std::remove_cvref_t<decltype(std::declval<Owner&>().*Member)>;
  type.def_prop_ro(name, [](const Owner& owner) -> Value { return owner.*Member; });
}

} // namespace paceline::python
