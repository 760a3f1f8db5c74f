#include "apps/terminal/chat/settings.hpp"

#include "apps/console/options.hpp"
#include "paceline/event.hpp"
#include "sampling/fields.hpp"
#include "sampling/limits.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

tl::unexpected<Error> refuse(const char* name, const std::string& given,
                             const std::string& wanted) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} cannot be '{}'", name, given),
              "give " + wanted);
}

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

Result<void> set_speculation(const std::string& given, Request& request) {
  const auto mode = meaning(speculation_choices(), given);
  if (!mode)
    return refuse("/speculation", given, names(speculation_choices()));
  request.speculation = *mode;
  return {};
}

Result<void> set_verify(const std::string& given, Request& request) {
  const auto rule = meaning(verify_choices(), given);
  if (!rule)
    return refuse("/verify", given, names(verify_choices()));
  request.verify = *rule;
  return {};
}

Result<void> set_window(const std::string& given, Request& request) {
  const auto window = number<int>(given);
  if (given != "auto" && (!window || *window < 1 || *window > sampling::limits::window_max))
    return refuse("/window", given, fmt::format("auto, or 1 to {}", sampling::limits::window_max));
  request.window = window;
  return {};
}

Result<void> set_temperature(const std::string& given, Request& request) {
  const auto temperature = number<float>(given);
  constexpr const sampling::NumberField& field = sampling::number_field("temperature");
  if (given != "default" && (!temperature || !field.allows(*temperature)))
    return refuse("/temperature", given,
                  fmt::format("default, or {} to {}", field.least, field.most));
  request.sampling.temperature = temperature;
  return {};
}

Result<void> set_seed(const std::string& given, Request& request) {
  const auto seed = number<std::uint64_t>(given);
  if (given != "random" && !seed)
    return refuse("/seed", given, "random, or a whole number of at most 64 bits");
  request.sampling.seed = seed;
  return {};
}

Result<void> change(const ChatCommand& command, Request& request) {
  const std::string& given = command.argument;
  switch (command.kind) {
  case Kind::speculation: return set_speculation(given, request);
  case Kind::verify: return set_verify(given, request);
  case Kind::window: return set_window(given, request);
  case Kind::temperature: return set_temperature(given, request);
  case Kind::seed: return set_seed(given, request);
  default: return fail(ErrorCode::internal, "not a setting");
  }
}

template <class T>
std::string shown(const std::optional<T>& value, const char* otherwise) {
  return value ? fmt::format("{}", *value) : otherwise;
}

std::string setting(Kind kind, const Request& request) {
  switch (kind) {
  case Kind::speculation:
    return std::string("speculation ") +
           to_string(request.speculation.value_or(SpeculationMode::automatic));
  case Kind::verify: return std::string("verify ") + to_string(request.verify);
  case Kind::window: return "window " + shown(request.window, "auto");
  case Kind::temperature: return "temperature " + shown(request.sampling.temperature, "default");
  case Kind::seed: return "seed " + shown(request.sampling.seed, "random");
  default: return {};
  }
}

constexpr Kind of_a_request[] = {Kind::speculation, Kind::window, Kind::verify, Kind::temperature,
                                 Kind::seed};

} // namespace

Result<ChatCommand> named_setting(std::string_view given) {
  constexpr std::string_view parameter = "parameter "; // Other chats write this word.
  if (given.starts_with(parameter))
    given.remove_prefix(parameter.size());
  auto command = parse_chat_line("/" + std::string(given));
  if (command && is_setting(command->kind))
    return command;
  std::vector<std::string_view> names;
  for (const ChatCommandName& each : chat_commands())
    if (is_setting(each.kind))
      names.push_back(each.name.substr(1));
  return fail(ErrorCode::invalid_argument,
              fmt::format("there is no setting '{}'", given.substr(0, given.find(' '))),
              fmt::format("name one of {}", fmt::join(names, ", ")));
}

std::string all_settings(const Request& request) {
  std::vector<std::string> all;
  for (const Kind kind : of_a_request)
    all.push_back(setting(kind, request));
  return fmt::format("{}", fmt::join(all, ", "));
}

Result<std::string> apply_setting(const ChatCommand& command, Request& request) {
  if (!command.argument.empty())
    if (auto changed = change(command, request); !changed)
      return tl::unexpected(changed.error());
  return setting(command.kind, request);
}

} // namespace paceline::apps
