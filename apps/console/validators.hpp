// Checks of option values whose messages say how to mend them: "--top-p cannot be '3': give ...".
#pragma once

#include "base/number_field.hpp"
#include "paceline/names.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps {

/// Accepts the numbers of a range.
CLI::Validator within(const base::NumberRange& range);
/// Accepts whole numbers from low to high, both included.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// Accepts a finite number from low (or above it) to high.
CLI::Validator number(double low, double high);
CLI::Validator number_above(double low, double high);
/// Accepts any 64 bits.
CLI::Validator seed_number();
/// Returns the seed that the text is, if it is one.
std::optional<std::uint64_t> seed_of(const std::string& text);
/// Accepts "auto", or a number of the range.
CLI::Validator automatic_or(const base::NumberRange& range);
/// Accepts "512M", "2GiB" and the like, and turns them into bytes.
CLI::Validator memory_size();
/// Accepts a file that `base::write_file` could write.
CLI::Validator writable_file();

/// Returns the number that the text is, if it is in the range.
std::optional<double> number_within(const base::NumberRange& range, const std::string& text);

/// Returns a message for a value that is not `wanted`.
std::string not_acceptable(const std::string& value, const std::string& wanted);

/// Names of values, in the user's spelling.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

/// Returns the choices that an enumeration has.
template <class T>
Choices<T> choices_of() {
  Choices<T> choices;
  for (const auto& [value, name] : value_names<T>)
    choices.emplace_back(name, value);
  return choices;
}

/// Returns the value with this name; none: it is not one of the choices.
template <class T>
std::optional<T> meaning(const Choices<T>& choices, const std::string& given) {
  for (const auto& [name, value] : choices)
    if (name == given)
      return value;
  return std::nullopt;
}

/// Returns a list such as "off|sync|overlap".
template <class T>
std::string names(const Choices<T>& choices) {
  std::string all;
  for (const auto& [name, value] : choices)
    all += (all.empty() ? "" : "|") + name;
  return all;
}

/// Adds an option whose value is one of a few names. `target` keeps its default until one is given.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& flags, T& target,
                        const Choices<T>& choices, const std::string& description) {
  const auto set = [&target, choices](const std::string& given) {
    target = meaning(choices, given).value_or(target);
  };
  const auto check = [choices](const std::string& given) {
    return meaning(choices, given) ? std::string() : not_acceptable(given, names(choices));
  };
  return app.add_option_function<std::string>(flags, set, description)
      ->check(CLI::Validator(check, ""))
      ->type_name(names(choices));
}

/// Adds the options of a field. What it is without them is shown, unless the description says it.
template <class Owner>
CLI::Option* add_number(CLI::App& app, Owner& owner, const base::NumberField<Owner>& field) {
  const auto set = [&owner, set = field.member.set](double given) { set(owner, given); };
  auto* option =
      app.add_option_function<double>(std::string(field.options), set, std::string(field.effect))
          ->check(within(field.range))
          ->type_name(field.range.whole ? "N" : "X");
  const auto standard = field.member.get(owner);
  if (standard && field.effect.find("default:") == field.effect.npos)
    option->default_str(field.range.shown(*standard));
  return option;
}

/// Sets what all options of a program and of its commands have in common: if an option takes one
/// value, the last given one counts; and the names of files, folders and models may begin with ~ as
/// in a shell, which does not see `--model=~/llama` or a file of options.
void settle_options(CLI::App& program);

} // namespace paceline::apps
