// Checks of option values whose messages say how to mend them: "--top-p cannot be '3': give ...".
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps {

/// low to high, both included.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// A finite number from low (or above it) to high.
CLI::Validator number(double low, double high);
CLI::Validator number_above(double low, double high);
/// Any 64 bits.
CLI::Validator seed_number();
/// "auto", or a whole number.
CLI::Validator automatic_or_number(std::int64_t low, std::int64_t high);
/// "512M", "2GiB": turned into bytes.
CLI::Validator memory_size();
/// A file that can be made: its folder exists and lets us write.
CLI::Validator creatable_file();

/// A message for a value that is not `wanted`.
std::string not_acceptable(const std::string& value, const std::string& wanted);

/// Names of values, as the user writes them.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

/// An option whose value is one of a few names. `value` keeps its default until one is given.
template <class T, class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& flags, Value& value, Choices<T> choices,
                        const std::string& description) {
  std::string names;
  for (const auto& [name, meaning] : choices)
    names += (names.empty() ? "" : "|") + name;
  const auto find = [choices](const std::string& given) {
    return std::find_if(choices.begin(), choices.end(),
                        [&](const auto& choice) { return choice.first == given; });
  };
  const auto check = [=](const std::string& given) {
    return find(given) != choices.end() ? std::string() : not_acceptable(given, names);
  };
  return app
      .add_option_function<std::string>(
          flags, [&value, find](const std::string& given) { value = find(given)->second; },
          description)
      ->check(CLI::Validator(check, ""))
      ->type_name(names);
}

} // namespace paceline::apps
