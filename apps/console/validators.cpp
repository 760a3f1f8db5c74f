#include "apps/console/validators.hpp"

#include "apps/console/home.hpp"
#include "base/file.hpp"
#include "base/parse_number.hpp"

#include <fmt/format.h>
#include <limits>
#include <optional>

namespace paceline::apps {
namespace {

template <class Accept>
CLI::Validator must_be(std::string wanted, Accept accept) {
  return CLI::Validator(
      [wanted = std::move(wanted), accept](const std::string& value) {
        return accept(value) ? std::string() : not_acceptable(value, wanted);
      },
      "");
}

} // namespace

std::string not_acceptable(const std::string& value, const std::string& wanted) {
  return fmt::format("cannot be '{}': give {}", value, wanted);
}

std::optional<double> number_within(const base::NumberRange& range, const std::string& text) {
  if (range.whole && !base::parse_number<std::int64_t>(text))
    return std::nullopt;
  const auto value = base::parse_number<double>(text);
  return value && range.allows(*value) ? value : std::nullopt;
}

CLI::Validator within(const base::NumberRange& range) {
  return must_be(range.wanted(),
                 [=](const std::string& text) { return number_within(range, text).has_value(); });
}

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return within({double(low), double(high), true});
}

std::optional<std::uint64_t> seed_of(const std::string& text) {
  return base::parse_number<std::uint64_t>(text);
}

CLI::Validator seed_number() {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  return must_be(fmt::format("a whole number from 0 to {}", most),
                 [](const std::string& text) { return seed_of(text).has_value(); });
}

CLI::Validator number(double low, double high) {
  return within({low, high});
}

CLI::Validator number_above(double low, double high) {
  return must_be(fmt::format("a number above {} and at most {}", low, high),
                 [=](const std::string& text) {
                   const auto value = base::parse_number<double>(text);
                   return value && *value > low && *value <= high;
                 });
}

CLI::Validator automatic_or(const base::NumberRange& range) {
  return must_be("auto or " + range.wanted(), [=](const std::string& text) {
    return text == "auto" || number_within(range, text);
  });
}

CLI::Validator memory_size() {
  const CLI::AsSizeValue in_bytes(false);
  const auto read = [in_bytes](std::string& text) {
    const std::string given = text;
    try {
      if (in_bytes(text).empty() && base::parse_number<std::uint64_t>(text))
        return std::string();
    } catch (const CLI::ValidationError&) { // The error below says it in our words.
    }
    return not_acceptable(given, "a size such as 512M or 2G");
  };
  return {read, ""};
}

CLI::Validator writable_file() {
  return must_be("a file that can be written, in a folder that exists", base::can_write_file);
}

void settle_options(CLI::App& program) {
  const CLI::Validator home(
      [](std::string& name) {
        name = with_home(std::move(name));
        return std::string();
      },
      "");
  for (CLI::Option* option : program.get_options()) {
    const std::string type = option->get_type_name();
    if (option->get_items_expected_max() == 1)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (type == "FILE" || type == "DIR" || type.starts_with("MODEL"))
      option->transform(home);
  }
  for (CLI::App* command : program.get_subcommands(nullptr))
    settle_options(*command);
}

} // namespace paceline::apps
