#include "apps/terminal/chat/settings.hpp"

#include "apps/console/options.hpp"
#include "paceline/event.hpp"
#include "sampling/fields.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

tl::unexpected<Error> refuse(std::string_view name, const std::string& given,
                             const std::string& wanted) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} cannot be '{}'", name, given),
              "give " + wanted);
}

Result<void> set_speculation(const std::string& given, Request& request) {
  const auto mode = meaning(choices_of<SpeculationMode>(), given);
  if (!mode)
    return refuse("/speculation", given, names(choices_of<SpeculationMode>()));
  request.speculation = *mode;
  return {};
}

Result<void> set_verify(const std::string& given, Request& request) {
  const auto rule = meaning(choices_of<VerifyRule>(), given);
  if (!rule)
    return refuse("/verify", given, names(choices_of<VerifyRule>()));
  request.verify = *rule;
  return {};
}

/// Returns the number that a chat may set by this name; null: there is none.
const sampling::RequestNumber* number_named(std::string_view name) {
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (field.in_chat && field.name() == name)
      return &field;
  return nullptr;
}

/// Returns the number that the command sets; null: it sets none.
const sampling::RequestNumber* number_of(const ChatCommand& command) {
  switch (command.kind) {
  case Kind::window: return number_named("window");
  case Kind::temperature: return number_named("temperature");
  case Kind::number:
    return number_named(std::string_view(command.argument).substr(0, command.argument.find(' ')));
  default: return nullptr;
  }
}

/// Returns the word for a number that a request does not say.
const char* unsaid(const sampling::RequestNumber& field) {
  return field.name() == "window" ? "auto" : "default";
}

std::string shown(const sampling::RequestNumber& field, const Request& request) {
  const auto value = field.member.get(request);
  return fmt::format("{} {}", field.name(), value ? field.range.shown(*value) : unsaid(field));
}

/// Sets a number. command: its name in errors.
Result<std::string> apply_number(const sampling::RequestNumber& field, std::string_view command,
                                 const std::string& given, Request& request) {
  const auto value = number_within(field.range, given);
  if (!value && !given.empty() && given != unsaid(field))
    return refuse(command, given, fmt::format("{} or {}", unsaid(field), field.range.wanted()));
  if (!given.empty())
    field.member.set(request, value);
  return shown(field, request);
}

Result<void> set_seed(const std::string& given, Request& request) {
  const auto seed = seed_of(given);
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
  case Kind::seed: return set_seed(given, request);
  default: return fail(ErrorCode::internal, "not a setting");
  }
}

std::string setting(Kind kind, const Request& request) {
  switch (kind) {
  case Kind::speculation:
    return std::string("speculation ") +
           to_string(request.speculation.value_or(SpeculationMode::automatic));
  case Kind::verify: return std::string("verify ") + to_string(request.verify);
  case Kind::window: return shown(sampling::request_number("window"), request);
  case Kind::temperature: return shown(sampling::request_number("temperature"), request);
  case Kind::seed:
    return request.sampling.seed ? fmt::format("seed {}", *request.sampling.seed) : "seed random";
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
  const std::string_view name = given.substr(0, given.find(' '));
  if (number_named(name))
    return ChatCommand{Kind::number, std::string(given)};
  return fail(ErrorCode::invalid_argument, fmt::format("there is no setting '{}'", name),
              fmt::format("name one of {}", fmt::join(setting_names(), ", ")));
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end())
      names.emplace_back(name);
  };
  for (const ChatCommandName& each : chat_commands())
    if (is_setting(each.kind))
      add(each.name.substr(1));
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (field.in_chat)
      add(field.name());
  return names;
}

std::string all_settings(const Request& request) {
  std::vector<std::string> all;
  for (const Kind kind : of_a_request)
    all.push_back(setting(kind, request));
  const Request standard;
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (std::string now = shown(field, request);
        field.in_chat && now != shown(field, standard) && std::ranges::find(all, now) == all.end())
      all.push_back(std::move(now));
  return fmt::format("{}", fmt::join(all, ", "));
}

Result<std::string> apply_setting(const ChatCommand& command, Request& request) {
  if (const auto* field = number_of(command)) {
    if (command.kind != Kind::number)
      return apply_number(*field, fmt::format("/{}", field->name()), command.argument, request);
    const auto given = command.argument.find_first_not_of(' ', field->name().size());
    return apply_number(*field, fmt::format("/set {}", field->name()),
                        given == std::string::npos ? "" : command.argument.substr(given), request);
  }
  if (!command.argument.empty())
    if (auto changed = change(command, request); !changed)
      return tl::unexpected(changed.error());
  return setting(command.kind, request);
}

} // namespace paceline::apps
