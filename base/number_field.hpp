// Numbers that callers set in a structure of the public API. A table of fields says what each is
// called, which values it may have and what it does; whoever takes one from a person, a file or
// another program, and whoever refuses one, asks the table.
#pragma once

#include "paceline/error.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace paceline::base {

struct NumberRange {
  double least = 0;
  double most = 0;
  bool whole = false;

  /// Returns whether `number` is in the range, perhaps as the float next to a bound; NaN is not.
  bool allows(double number) const {
    const auto rounded = [&](double bound) { return whole ? bound : double(float(bound)); };
    return number >= std::min(least, rounded(least)) && number <= std::max(most, rounded(most));
  }
  /// Returns "a whole number from 1 to 32": every refusal has these words.
  std::string wanted() const;
  /// Returns the number as people write it.
  std::string shown(double number) const;
};

/// How to read and write one number in an `Owner`. Each int and each float is exact as a double.
template <class Owner>
struct NumberAccess {
  std::optional<double> (*get)(const Owner&) = nullptr;       ///< None: the member has no value.
  void (*set)(Owner&, std::optional<double> value) = nullptr; ///< None: as in a new Owner.
};

/// Returns the member at the end of a path of pointers to members.
template <auto... Path, class Owner>
constexpr auto& member_of(Owner& owner) {
  return (owner.*....*Path);
}

template <class Member>
struct NumberIn {
  using type = Member;
};
template <class Number>
struct NumberIn<std::optional<Number>> {
  using type = Number;
};

template <class Owner, auto... Path>
using MemberOf = std::remove_cvref_t<decltype(member_of<Path...>(std::declval<Owner&>()))>;
template <class Owner, auto... Path>
using NumberOf = typename NumberIn<MemberOf<Owner, Path...>>::type;

/// Returns the access to a member, or to a member of a member: a number, or an optional one.
template <class Owner, auto... Path>
constexpr NumberAccess<Owner> number_access() {
  using Member = MemberOf<Owner, Path...>;
  using Number = NumberOf<Owner, Path...>;
  return {[](const Owner& owner) -> std::optional<double> {
            const std::optional<Number> value = member_of<Path...>(owner);
            return value ? std::optional(double(*value)) : std::nullopt;
          },
          [](Owner& owner, std::optional<double> value) {
            if (value) {
              member_of<Path...>(owner) = Member(Number(*value));
            } else {
              const Owner standard;
              member_of<Path...>(owner) = member_of<Path...>(standard);
            }
          }};
}

template <class Owner>
struct NumberField {
  std::string_view path;    ///< "Sampling::top_p", as errors of the library have it.
  std::string_view options; ///< "-n,--max-tokens"; empty: the command line has none.
  std::string_view effect;  ///< Description for people.
  NumberRange range;
  NumberAccess<Owner> member;

  /// Returns "top_p", the name in JSON and protobuf.
  constexpr std::string_view name() const { return path.substr(path.rfind(':') + 1); }
};

/// Returns the field of a member, or of a member of a member.
template <class Owner, auto... Path>
constexpr NumberField<Owner> number_field(std::string_view path, std::string_view options,
                                          std::string_view effect, double least, double most) {
  constexpr bool is_whole = std::is_integral_v<NumberOf<Owner, Path...>>;
  return {path, options, effect, {least, most, is_whole}, number_access<Owner, Path...>()};
}

/// Returns the field of that name, which must exist.
template <class Table>
constexpr const auto& field_of(const Table& table, std::string_view name) {
  return *std::ranges::find_if(table, [=](const auto& field) { return field.name() == name; });
}

/// Returns the refusal "PATH is VALUE: give a number from 0 to 1" unless the value is allowed.
Result<void> check_number(std::string_view path, const NumberRange& range, double value);

/// Checks the field of `owner`; one without a value may be left out.
template <class Owner>
Result<void> check(const NumberField<Owner>& field, const Owner& owner) {
  const auto value = field.member.get(owner);
  return value ? check_number(field.path, field.range, *value) : Result<void>();
}

} // namespace paceline::base
