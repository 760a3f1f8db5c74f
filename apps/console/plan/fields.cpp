#include "apps/console/plan/fields.hpp"

#include "apps/console/validators.hpp"
#include "placement/limits.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace paceline::apps::plan {
namespace {

std::string between(double low, double high) {
  return std::isinf(high) ? fmt::format("give a number of at least {:g}", low)
                          : fmt::format("give a number from {:g} to {:g}", low, high);
}

std::optional<double> within(const toml::node& node, double low, double high) {
  const auto value = node.value<double>();
  return value && *value >= low && *value <= high && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::uint64_t> bytes_of(const std::string& text) {
  double size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  std::string unit = "1" + std::string(end, text.data() + text.size());
  if (error != std::errc() || !(size > 0) || !memory_size()(unit).empty())
    return std::nullopt;
  const double bytes = size * std::stod(unit);
  return bytes < 0x1p62 ? std::optional(std::uint64_t(bytes)) : std::nullopt;
}

} // namespace

const toml::node* Fields::find(const char* name) {
  known_.insert(name);
  return table_.get(name);
}

void Fields::wrong(const char* name, const std::string& what, const std::string& hint) const {
  const toml::node* node = table_.get(name);
  throw Wrong{node ? node->source() : table_.source(), fmt::format("{}: {} {}", where_, name, what),
              hint};
}

std::optional<double> Fields::number(const char* name, double low, double high) {
  const toml::node* node = find(name);
  if (!node)
    return std::nullopt;
  const auto value = within(*node, low, high);
  if (!value)
    wrong(name, "is out of bounds, or no number", between(low, high));
  return value;
}

std::optional<std::int64_t> Fields::whole(const char* name, std::int64_t low, std::int64_t high) {
  const toml::node* node = find(name);
  if (!node)
    return std::nullopt;
  const auto* value = node->as_integer();
  if (!value || value->get() < low || value->get() > high)
    wrong(name, "is out of bounds, or no whole number",
          fmt::format("give a whole number from {} to {}", low, high));
  return value->get();
}

std::optional<std::string> Fields::text(const char* name) {
  const toml::node* node = find(name);
  if (!node)
    return std::nullopt;
  const auto* value = node->as_string();
  if (!value || value->get().empty())
    wrong(name, "is no text", "write it in quotes");
  return value->get();
}

std::optional<std::uint64_t> Fields::memory(const char* name) {
  const toml::node* node = find(name);
  if (!node)
    return std::nullopt;
  std::optional<std::uint64_t> bytes;
  if (const auto* number = node->as_integer(); number && number->get() > 0)
    bytes = std::uint64_t(number->get());
  else if (const auto* text = node->as_string())
    bytes = bytes_of(text->get());
  if (!bytes)
    wrong(name, "is no size", "give bytes, or a text such as \"13.4G\"");
  return bytes;
}

std::vector<std::string> Fields::texts(const char* name) {
  const toml::node* node = find(name);
  std::vector<std::string> all;
  if (!node)
    return all;
  const auto* list = node->as_array();
  if (!list)
    wrong(name, "is no list", "write it as [\"one\", \"two\"]");
  for (const toml::node& each : *list) {
    const auto* text = each.as_string();
    if (!text || text->get().empty())
      wrong(name, "holds what is no text", "write it as [\"one\", \"two\"]");
    all.push_back(text->get());
  }
  return all;
}

std::vector<double> Fields::numbers(const char* name, double low, double high) {
  const toml::node* node = find(name);
  std::vector<double> all;
  if (!node)
    return all;
  const auto* list = node->as_array();
  if (!list)
    wrong(name, "is no list", "write it as [51, 52]");
  for (const toml::node& each : *list) {
    const auto value = within(each, low, high);
    if (!value)
      wrong(name, "holds what is out of bounds, or no number", between(low, high));
    all.push_back(*value);
  }
  return all;
}

const toml::table* Fields::table(const char* name) {
  const toml::node* node = find(name);
  if (node && !node->as_table())
    wrong(name, "is no section", fmt::format("write [{}] above its fields", name));
  return node ? node->as_table() : nullptr;
}

std::vector<const toml::table*> Fields::tables(const char* name) {
  const toml::node* node = find(name);
  std::vector<const toml::table*> all;
  if (!node)
    return all;
  const auto* list = node->as_array();
  for (std::size_t i = 0; list && i < list->size(); ++i)
    if (const auto* table = list->get(i)->as_table())
      all.push_back(table);
  if (!list || all.size() < list->size())
    wrong(name, "is no list of sections",
          fmt::format("write [[{}]] above each one's fields", name));
  return all;
}

void Fields::end() const {
  for (const auto& [key, node] : table_)
    if (!known_.contains(std::string(key.str()))) {
      std::string names;
      for (const std::string& name : known_)
        names += (names.empty() ? "" : ", ") + name;
      throw Wrong{node.source(), fmt::format("{} has no field {}", where_, key.str()),
                  "there are " + names};
    }
}

std::vector<double> read_growth(Fields& fields, const char* name, double alone) {
  std::vector<double> growth = fields.numbers(name, 0, HUGE_VAL);
  double before = alone;
  for (double& one : growth) {
    if (one < before || one > 2 * before)
      fields.wrong(name, fmt::format("has {:g} behind {:g}", one, before),
                   "give for 2, 4, 8, ... requests at once no less than for half as many, and at "
                   "most twice that: more would be slower than one after the other");
    before = std::exchange(one, one / alone);
  }
  if (growth.size() >= std::size_t(std::bit_width(unsigned(placement::limits::batch_max))))
    fields.wrong(name, fmt::format("has {} values", growth.size()),
                 fmt::format("end with {} requests at once", placement::limits::batch_max));
  return growth;
}

double read_contention(Fields& fields) {
  return fields
      .number("contention", placement::limits::contention_min, placement::limits::contention_max)
      .value_or(1);
}

Result<void> read_toml(const std::string& text, const std::string& file,
                       const std::function<void(const toml::table&)>& read) {
  const auto complain = [&](const toml::source_region& at, const std::string& what,
                            const std::string& hint) {
    return fail(ErrorCode::corrupt, fmt::format("{}, line {}: {}", file, at.begin.line, what),
                hint);
  };
  try {
    read(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    return complain(error.source(),
                    fmt::format("this is not TOML ({})", std::string(error.description())),
                    "see https://toml.io");
  } catch (const Wrong& wrong) {
    return complain(wrong.at, wrong.what, wrong.hint);
  }
  return {};
}

} // namespace paceline::apps::plan
