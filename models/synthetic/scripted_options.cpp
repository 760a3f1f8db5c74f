#include "models/synthetic/scripted_options.hpp"

#include "base/parse_number.hpp"
#include "models/limits.hpp"
#include "text/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::models {
namespace {

constexpr const char* name_hint = "write scripted or "
                                  "scripted:vocabulary=64,memory=3,seed=1,acceptance=0.8,context="
                                  "4096,ranked=1,peaked=1,recurrent=1";

constexpr int ranked_vocabulary_min = 40;

template <class Number>
bool set_number(std::string_view text, Number& out) {
  const auto number = base::parse_number<Number>(text);
  out = number.value_or(out);
  return number.has_value();
}

bool set_option(ScriptedOptions& o, std::string_view key, std::string_view value) {
  if (key == "vocabulary")
    return set_number(value, o.vocabulary);
  if (key == "memory")
    return set_number(value, o.memory);
  if (key == "seed")
    return set_number(value, o.seed);
  if (key == "acceptance")
    return set_number(value, o.acceptance);
  if (key == "context")
    return set_number(value, o.context);
  const auto flag = [&](const char* name, bool& to) {
    const bool own = key == name && (value == "0" || value == "1");
    to = own ? value == "1" : to;
    return own;
  };
  return flag("ranked", o.ranked) || flag("peaked", o.peaked) || flag("recurrent", o.recurrent);
}

} // namespace

std::string canonical_name(const ScriptedOptions& o) {
  return fmt::format(
      "scripted:vocabulary={},memory={},seed={},acceptance={},context={},ranked={},peaked={}"
      "{}",
      o.vocabulary, o.memory, o.seed, o.acceptance, o.context, int(o.ranked), int(o.peaked),
      o.recurrent ? ",recurrent=1" : "");
}

Result<void> check_scripted(const ScriptedOptions& o) {
  const auto wrong = [](std::string what) {
    return fail(ErrorCode::invalid_argument, "scripted model: " + std::move(what), name_hint);
  };
  if (o.vocabulary < 2 || o.vocabulary > text::limits::vocabulary_max)
    return wrong(fmt::format("vocabulary={} is not from 2 to {}", o.vocabulary,
                             text::limits::vocabulary_max));
  if (o.memory < 0 || o.memory > limits::scripted_memory_max)
    return wrong(
        fmt::format("memory={} is not from 0 to {}", o.memory, limits::scripted_memory_max));
  if (!(o.acceptance >= 0 && o.acceptance <= 1))
    return wrong(fmt::format("acceptance={} is not from 0 to 1", o.acceptance));
  if (o.acceptance < 1 && o.vocabulary < 4)
    return wrong("an acceptance below 1 wants a vocabulary of 4 or more");
  if (o.ranked && (o.vocabulary < ranked_vocabulary_min || o.acceptance < 0.5))
    return wrong(fmt::format("ranked=1 wants a vocabulary of {} and an acceptance of 0.5 or more",
                             ranked_vocabulary_min));
  if (o.context < 1 || o.context > limits::context_max)
    return wrong(fmt::format("context={} is not from 1 to {}", o.context, limits::context_max));
  return {};
}

bool is_scripted(std::string_view name) {
  return name == "scripted" || name.starts_with("scripted:");
}

Result<ScriptedOptions> parse_scripted(std::string_view name) {
  const auto wrong = [&](std::string_view part) {
    return fail(ErrorCode::invalid_argument, fmt::format("scripted model: bad option {}", part),
                name_hint);
  };
  if (!is_scripted(name))
    return wrong(name);
  ScriptedOptions options;
  name.remove_prefix(std::min(name.size(), std::string_view("scripted:").size()));
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find(','));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    const auto equals = part.find('=');
    if (equals == part.npos ||
        !set_option(options, part.substr(0, equals), part.substr(equals + 1)))
      return wrong(part);
  }
  if (auto ok = check_scripted(options); !ok)
    return tl::unexpected(ok.error());
  return options;
}

} // namespace paceline::models
