#include "apps/console/configuration.hpp"

#include "apps/console/input.hpp"
#include "apps/console/validators.hpp"

#include <fmt/format.h>
#include <set>
#include <toml++/toml.h>

namespace paceline::apps {
namespace {

/// Passes one file's options to a command. Unknown options and wrong values are errors with their
/// line: an option that was silently ignored may be the one that names the keys.
class Configuration {
public:
  Configuration(CLI::App& app, std::string file) : app_(app), file_(std::move(file)) {}

  void apply() {
    const auto text = read_text({{}, file_});
    if (!text)
      throw CLI::ValidationError("--config", text.error().text());
    try {
      const toml::table table = toml::parse(*text, file_);
      apply(table);
    } catch (const toml::parse_error& error) {
      complain(error.source(), fmt::format("this is not TOML ({})", error.description()));
    }
  }

private:
  [[noreturn]] void complain(const toml::source_region& at, const std::string& what) const {
    throw CLI::ValidationError("--config",
                               fmt::format("{}, line {}: {}", file_, at.begin.line, what));
  }

  /// Applies options at the top, or in a section with the command's name.
  void apply(const toml::table& table, bool in_section = false) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      const auto* section = node.as_table();
      if (!section)
        set(name, node);
      else if (name == app_.get_name() && !in_section)
        apply(*section, true);
      else
        complain(node.source(), fmt::format("there is no section {}: write its options above all "
                                            "sections, or in [{}]",
                                            name, app_.get_name()));
    }
  }

  /// Sets an option unless the command line did. Values set here run their options' own checks
  /// twice: here, where the line is known, and when the command's options are read.
  void set(const std::string& name, const toml::node& node) {
    CLI::Option* option = app_.get_option_no_throw("--" + name);
    if (!option || name == "help" || name == "config")
      complain(node.source(),
               fmt::format("{} is no option: see paceline {} --help", name, app_.get_name()));
    if (!set_here_.insert(option).second)
      complain(node.source(), fmt::format("{} is set a second time: set it once", name));
    const auto values = values_of(name, node);
    const bool flag = option->get_expected_max() == 0;
    if (values.empty() || (int(values.size()) > option->get_items_expected_max() && !flag))
      complain(node.source(), fmt::format("{} has {} values: give one", name, values.size()));
    if (flag && values != std::vector<std::string>{"true"} &&
        values != std::vector<std::string>{"false"})
      complain(node.source(), name + " is a flag: give true or false");
    for (const std::string& value : values)
      check(name, *option, value, node);
    if (option->count() == 0 && !(flag && values.front() == "false"))
      option->add_result(values);
  }

  void check(const std::string& name, CLI::Option& option, std::string value,
             const toml::node& node) const {
    for (int i = 0;; ++i) {
      CLI::Validator* validator = nullptr;
      try {
        validator = option.get_validator(i);
      } catch (const CLI::OptionNotFound&) {
        return;
      }
      if (const std::string wrong = (*validator)(value); !wrong.empty())
        complain(node.source(), name + " " + wrong);
    }
  }

  std::vector<std::string> values_of(const std::string& name, const toml::node& node) const {
    std::vector<std::string> values;
    if (const auto* list = node.as_array()) {
      for (const toml::node& each : *list)
        values.push_back(value_of(name, each));
    } else {
      values.push_back(value_of(name, node));
    }
    return values;
  }

  std::string value_of(const std::string& name, const toml::node& node) const {
    if (const auto* text = node.as_string())
      return text->get();
    if (const auto* whole = node.as_integer())
      return std::to_string(whole->get());
    if (const auto* number = node.as_floating_point())
      return fmt::format("{}", number->get());
    if (const auto* flag = node.as_boolean())
      return flag->get() ? "true" : "false";
    complain(node.source(), fmt::format("{} must be a string, a number, true or false, or a list "
                                        "of those",
                                        name));
  }

  CLI::App& app_;
  std::string file_;
  std::set<CLI::Option*> set_here_;
};

} // namespace

void add_configuration_option(CLI::App& app) {
  // The first option's callback is the first to run, so the other options see what it added.
  app.add_option_function<std::string>(
         "--config", [&app](const std::string& file) { Configuration(app, file).apply(); },
         "Options from a file (TOML): name = value, one a line; the command line goes first")
      ->type_name("FILE");
}

} // namespace paceline::apps
