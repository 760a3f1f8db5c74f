// Checks of option values whose messages say how to mend them: "--top-p cannot be '3': give ...".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps {

/// Accepts whole numbers from low to high, both included.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// Accepts a finite number from low (or above it) to high.
CLI::Validator number(double low, double high);
CLI::Validator number_above(double low, double high);
/// Accepts any 64 bits.
CLI::Validator seed_number();
/// Accepts "auto", or a whole number.
CLI::Validator automatic_or_number(std::int64_t low, std::int64_t high);
/// Accepts "512M", "2GiB" and the like, and turns them into bytes.
CLI::Validator memory_size();
/// Accepts a file that `base::write_file` could write.
CLI::Validator writable_file();

/// Returns a message for a value that is not `wanted`.
std::string not_acceptable(const std::string& value, const std::string& wanted);

/// Names of values, in the user's spelling.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

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

/// Sets what all options of a program and of its commands have in common: if an option takes one
/// value, the last given one counts; and the names of files, folders and models may begin with ~ as
/// in a shell, which does not see `--model=~/llama` or a file of options.
void settle_options(CLI::App& program);

} // namespace paceline::apps
