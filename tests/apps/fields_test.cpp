// Every interface takes every number of the tables of fields, with the table's bounds and words, or
// the table says why not: a new row needs no line here.
#include "actors/engine_fields.hpp"
#include "actors/option_check.hpp"
#include "apps/console/command.hpp"
#include "apps/console/configuration.hpp"
#include "apps/console/field_names.hpp"
#include "apps/console/options.hpp"
#include "apps/server/openai_request.hpp"
#include "apps/terminal/chat/settings.hpp"
#include "net/codec.hpp"
#include "sampling/fields.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <doctest/doctest.h>
#include <google/protobuf/descriptor.h>
#include <limits>

using namespace paceline;
using sampling::InBodies;
using sampling::RequestNumber;
namespace json = boost::json;

namespace {

constexpr const RequestNumber (&numbers)[std::size(sampling::request_numbers)] =
    sampling::request_numbers;

/// A value at a bound of a field, or a little beyond one.
struct Trial {
  double value;
  bool allowed;
};

std::vector<Trial> trials(const base::NumberRange& range) {
  const double little = range.whole ? 1 : 1e-3;
  return {{range.least, true},
          {range.most, true},
          {range.least - little, false},
          {range.most + little, false}};
}

/// A value as a person writes it.
std::string written(const base::NumberRange& range, double value) {
  return range.whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

json::value in_json(const base::NumberRange& range, double value) {
  return range.whole ? json::value(std::int64_t(value)) : json::value(value);
}

/// The first long option, as a file of options names it.
std::string option_name(std::string_view path) {
  return apps::with_options(path).substr(2);
}

/// What a program with the options of requests and engines understands.
struct ParsedOptions {
  explicit ParsedOptions(std::vector<std::string> words) {
    apps::add_configuration_option(app);
    apps::add_model_options(app, engine);
    apps::add_speculation_options(app, engine, request);
    apps::add_batching_options(app, engine);
    apps::add_sampling_options(app, request);
    std::ranges::reverse(words);
    try {
      app.parse(words);
    } catch (const CLI::Error& wrong) {
      error = wrong.what();
    }
  }

  CLI::App app{"", "fields"};
  EngineOptions engine;
  Request request;
  std::string error;
};

/// The same of `paceline generate`, which has an option more.
std::string generate_error(const std::string& option) {
  CLI::App program;
  const apps::Command generate = apps::add_generate(program); // It holds what is parsed.
  try {
    program.parse("generate x --json " + option);
  } catch (const CLI::Error& wrong) {
    return wrong.what();
  }
  return "";
}

bool says(const std::string& error, const std::string& words) {
  INFO(error, " / ", words);
  return error.find(words) != std::string::npos;
}

/// A number in the body of a completion: the place that errors name, and the body.
struct InBody {
  InBody(const RequestNumber& field, double value)
      : place(field.name() == "window"         ? "speculation.window"
              : field.name() == "top_logprobs" ? "logprobs"
                                               : field.name()) {
    const json::value given = in_json(field.range, value);
    body = {{"prompt", json::array{1}}};
    if (field.name() == "window")
      body["speculation"] = {{"window", given}};
    else
      body[place] = given;
    if (field.name() == "min_tokens")
      body["max_tokens"] = in_json(field.range, field.range.most);
  }
  std::string place;
  json::object body;
};

} // namespace

TEST_CASE("a number that an interface lacks or takes in its own way has a reason") {
  for (const RequestNumber& field : numbers) {
    CAPTURE(field.name());
    CHECK(&sampling::request_number(field.name()) == &field);
    CHECK(!field.effect.empty());
    const bool everywhere =
        !field.options.empty() && field.in_bodies == InBodies::by_name && field.in_chat;
    CHECK(field.why.empty() == everywhere);
  }
}

TEST_CASE("an engine holds requests to the table of numbers") {
  Engine engine = testing::open_engine(testing::simulated());
  for (const RequestNumber& field : numbers)
    for (const auto& [value, allowed] : trials(field.range)) {
      if (field.range.whole && std::abs(value) > std::numeric_limits<int>::max())
        continue;
      CAPTURE(field.name());
      CAPTURE(value);
      Request request;
      request.prompt_tokens = {1};
      field.member.set(request, value);
      if (field.name() == "min_tokens" && allowed)
        request.max_tokens = int(value);
      const auto stream = engine.submit(request);
      REQUIRE(stream.has_value() == allowed);
      if (allowed)
        continue;
      CHECK(stream.error().text() == fmt::format("{} is {}: give {}", field.path,
                                                 field.range.shown(value), field.range.wanted()));
      CHECK(apps::with_request_fields(stream.error()).text() ==
            fmt::format("{} is {}: give {}", field.name(), field.range.shown(value),
                        field.range.wanted()));
    }
}

TEST_CASE("the command line and files of options take a request's numbers") {
  const testing::TemporaryFolder folder;
  for (const RequestNumber& field : numbers)
    for (const auto& [value, allowed] : trials(field.range)) {
      CAPTURE(field.name());
      CAPTURE(value);
      if (field.options.empty()) {
        CHECK(apps::with_options(field.path) == field.path);
        continue;
      }
      const std::string text = written(field.range, value);
      const std::string name = option_name(field.path);
      const std::string words = fmt::format("cannot be '{}': give ", text);
      const std::string wanted =
          (field.name() == "window" ? "auto or " : "") + field.range.wanted();
      const std::string error = generate_error(fmt::format("--{}={}", name, text));
      CHECK((allowed ? error.empty() : says(error, words + wanted)));
      if (field.name() == "top_logprobs")
        continue; // It is an option of `generate` alone.
      const std::string file = folder.write("options", fmt::format("{} = {}\n", name, text));
      for (const auto& given :
           {std::vector{fmt::format("--{}={}", name, text)}, std::vector{"--config=" + file}}) {
        const ParsedOptions parsed(given);
        CHECK((allowed ? parsed.error.empty() : says(parsed.error, words + wanted)));
        if (allowed && field.name() != "window") // A command's engine has that.
          CHECK(field.range.shown(*field.member.get(parsed.request)) == field.range.shown(value));
      }
    }
}

TEST_CASE("HTTP takes a request's numbers") {
  using namespace apps::serve;
  for (const RequestNumber& field : numbers) {
    base::NumberRange range = field.range;
    if (field.name() == "top_k")
      range.least = -1; // vLLM's value for all.
    for (const auto& [value, allowed] : trials(range)) {
      CAPTURE(field.name());
      CAPTURE(value);
      const InBody in(field, value);
      const auto asked = read_request(Api::completions, in.body, {}, 100);
      if (field.in_bodies == InBodies::no) {
        REQUIRE(asked);
        CHECK(field.member.get(asked->request) == field.member.get(Request()));
        continue;
      }
      REQUIRE(asked.has_value() == allowed);
      if (allowed)
        CHECK(float(*field.member.get(asked->request)) ==
              float(std::max(value, field.range.least)));
      else
        CHECK(asked.error().message == fmt::format("{} must be {}", in.place, range.wanted()));
    }
  }
}

TEST_CASE("a chat takes a request's numbers") {
  for (const RequestNumber& field : numbers) {
    CAPTURE(field.name());
    for (const auto& [value, allowed] : trials(field.range)) {
      CAPTURE(value);
      const std::string text = written(field.range, value);
      const auto command = apps::named_setting(fmt::format("{} {}", field.name(), text));
      REQUIRE(command.has_value() == field.in_chat);
      if (!field.in_chat)
        continue;
      const Request standard;
      Request request;
      const auto set = apps::apply_setting(*command, request);
      REQUIRE(set.has_value() == allowed);
      const std::string unsaid = field.name() == "window" ? "auto" : "default";
      if (!allowed) {
        CHECK(says(set.error().text(), fmt::format("{} cannot be '{}': give {} or {}", field.name(),
                                                   text, unsaid, field.range.wanted())));
        continue;
      }
      CHECK(*set == fmt::format("{} {}", field.name(), field.range.shown(value)));
      CHECK(float(*field.member.get(request)) == float(value));
      const auto back = apps::named_setting(fmt::format("{} {}", field.name(), unsaid)).value();
      REQUIRE(apps::apply_setting(back, request));
      CHECK(field.member.get(request) == field.member.get(standard));
    }
  }
}

TEST_CASE("gRPC takes a request's numbers by their names") {
  for (const RequestNumber& field : numbers) {
    CAPTURE(field.name());
    const auto& message = field.path.starts_with("Sampling::") ? *v1::Sampling::descriptor()
                                                               : *v1::GenerateRequest::descriptor();
    CHECK(message.FindFieldByName(std::string(field.name())) != nullptr);
    Request request;
    field.member.set(request, field.range.most);
    v1::GenerateRequest crossing;
    REQUIRE(net::write(crossing, request));
    CHECK(field.member.get(net::read(crossing).value()) == field.member.get(request));
  }
}

TEST_CASE("the library and the command line take an engine's numbers") {
  for (const auto& field : actors::engine_numbers)
    for (const auto& [value, allowed] : trials(field.range)) {
      CAPTURE(field.name());
      CAPTURE(value);
      EngineOptions options;
      field.member.set(options, value);
      const auto checked = actors::check_options(options);
      REQUIRE(checked.has_value() == allowed);
      if (!allowed)
        CHECK(checked.error().text() ==
              fmt::format("{} is {:.0f}: give {}", field.path, value, field.range.wanted()));
      if (field.options.empty() || field.name() == "max_waiting")
        continue; // Servers alone have the latter.
      const bool automatic = field.name() == "window" || field.name() == "row_budget";
      const ParsedOptions parsed({fmt::format("--{}={:.0f}", option_name(field.path), value)});
      const bool taken = allowed && !(field.name() == "row_budget" && value == 0);
      if (taken)
        CHECK(*field.member.get(parsed.engine) == value);
      else if (field.name() != "row_budget") // There 0 is spelled auto.
        CHECK(says(parsed.error, (automatic ? "auto or " : "") + field.range.wanted()));
      CHECK(parsed.error.empty() == taken);
    }
}

TEST_CASE("a chat's help lists the values that commands take") {
  for (const apps::ChatCommandName& command : apps::chat_commands()) {
    if (command.kind == apps::ChatCommand::Kind::speculation)
      CHECK(command.argument ==
            fmt::format("[{}]", apps::names(apps::choices_of<SpeculationMode>())));
    if (command.kind == apps::ChatCommand::Kind::verify)
      CHECK(command.argument == fmt::format("[{}]", apps::names(apps::choices_of<VerifyRule>())));
  }
}
