// Checks of option values whose messages say how to mend them: "--top-p cannot be '3': give ...".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
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
/// What `base::write_file` could write.
CLI::Validator writable_file();

/// A message for a value that is not `wanted`.
std::string not_acceptable(const std::string& value, const std::string& wanted);

/// Names of values, as the user writes them.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

/// What a name means; none: it is not one of the choices.
template <class T>
std::optional<T> meaning(const Choices<T>& choices, const std::string& given) {
  for (const auto& [name, value] : choices)
    if (name == given)
      return value;
  return std::nullopt;
}

/// "off|sync|overlap"
template <class T>
std::string names(const Choices<T>& choices) {
  std::string all;
  for (const auto& [name, value] : choices)
    all += (all.empty() ? "" : "|") + name;
  return all;
}

/// An option whose value is one of a few names. `target` keeps its default until one is given.
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

/// What all options of a program and of its commands have: of one value the last one that is given
/// counts, and the names of files, folders and models begin with ~ as in a shell, which sees
/// neither
/// `--model=~/llama` nor a file of options.
void settle_options(CLI::App& program);

} // namespace paceline::apps
