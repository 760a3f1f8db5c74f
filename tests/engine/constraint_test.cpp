// Answers in a form, through all actors: every mode gives what plain constrained decoding gives.
#include "actors/request_check.hpp"
#include "tests/engine/world.hpp"
#include "tests/support/effort.hpp"

#include <boost/json/parse.hpp>
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr const char* person = R"({"type": "object",
  "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0,
                 "maximum": 120}, "tags": {"type": "array", "items": {"enum": ["a", "b"]},
                 "maxItems": 3}}, "required": ["name", "age", "tags"]})";

Request person_request(Constraint form, float temperature, std::uint64_t seed) {
  Request request;
  request.prompt = "def person():\n    return ";
  request.max_tokens = 120;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.constraint = std::move(form);
  return request;
}

/// Whether the text is a person, or the beginning of one.
bool is_person(const Answer& answer) {
  if (answer.end().reason != FinishReason::stop)
    return answer.end().reason == FinishReason::length && answer.text.starts_with("{");
  boost::system::error_code error;
  const auto value = boost::json::parse(answer.text, error);
  return !error && value.is_object() && value.as_object().size() == 3 &&
         value.at("name").is_string() && value.at("age").is_int64() && value.at("tags").is_array();
}

} // namespace

TEST_CASE("an answer in a form is that of plain decoding in every mode, token for token") {
  const std::vector<std::string> drafts[] = {
      {"auto"}, {"suffix"}, {"suffix", "auto"}, {"self:mxfp8"}, {"eagle3:demo"}};
  using Draw = std::pair<float, std::uint64_t>; // Temperature and seed.
  const auto draws =
      sanitized ? std::vector<Draw>{{1.0f, 1}} : std::vector<Draw>{{0.0f, 1}, {1.0f, 1}, {1.0f, 2}};
  for (const auto& drafters : drafts) {
    std::map<Draw, Answer> plain; // What the first mode says.
    int drafted = 0;
    for (const SpeculationMode mode : all_modes) {
      EngineWorld world(demo_in(mode, drafters));
      for (const auto& [temperature, seed] : draws) {
        CAPTURE(temperature);
        CAPTURE(seed);
        CAPTURE(std::string(to_string(mode)));
        CAPTURE(drafters.front());
        const auto recorder = world.submit(
            person_request({Constraint::Kind::json_schema, person}, temperature, seed));
        REQUIRE(world.run_until_ended({recorder}));
        const Answer& answer = recorder->answer;
        CHECK(is_person(answer));
        drafted += int(answer.end().speculation.accepted);
        const Answer& expected = plain.try_emplace({temperature, seed}, answer).first->second;
        CHECK(answer.text == expected.text);
        CHECK(answer.tokens == expected.tokens);
      }
    }
    CHECK((drafted > (sanitized ? 0 : 40) || drafters.front() == "suffix"));
  }
}

TEST_CASE("each kind of form holds its answers, and ends them") {
  using Kind = Constraint::Kind;
  EngineWorld world(demo_in(SpeculationMode::overlap));
  const auto text = [&world](Constraint form, std::uint64_t seed) {
    const auto recorder = world.submit(person_request(std::move(form), 1, seed));
    REQUIRE(world.run_until_ended({recorder}));
    CHECK(recorder->answer.end().reason == FinishReason::stop);
    return recorder->answer.text;
  };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::string choice = text({Kind::choice, "", {"yes", "no\n", "may\"be"}}, seed);
    CHECK((choice == "yes" || choice == "no\n" || choice == "may\"be"));
    const std::string date = text({Kind::regex, R"(20\d\d-[01]\d)"}, seed);
    CHECK(date.size() == 7);
    CHECK(date.starts_with("20"));
    CHECK(text({Kind::grammar, R"(root ::= "<" [a-c]{2} ">")"}, seed).size() == 4);
  }
}

TEST_CASE("a form that is none, or that answers cannot be held to, is refused by name") {
  using Kind = Constraint::Kind;
  EngineWorld world(demo_in(SpeculationMode::off));
  const auto refusal = [&world](Constraint form) {
    Request request = person_request(std::move(form), 1, 1);
    const auto checked = actors::check_request(request, world.opened(), 1);
    return checked ? std::string("taken") : checked.error().text();
  };
  CHECK(refusal({Kind::regex, "(a"}).find("not closed") != std::string::npos);
  CHECK(refusal({Kind::json_schema, "[]"}).find("JSON schema") != std::string::npos);
  CHECK(refusal({Kind::json_schema, R"({"type": "array", "uniqueItems": true})"})
            .find("'uniqueItems'") != std::string::npos);
  CHECK(refusal({Kind::json_schema, R"({"$ref": "#"})"}).find("no text") != std::string::npos);
  Request request = person_request({Kind::json}, 1, 1);
  request.ignore_eos = true;
  CHECK(!actors::check_request(request, world.opened(), 1));
}

TEST_CASE("a drafter goes on behind its own tokens, whether the form has them or not") {
  class Stubborn final : public Drafter {
  public:
    void propose(std::span<DraftTask* const> tasks) override {
      for (DraftTask* task : tasks)
        while (task->wanted() > 0) {
          const std::size_t before = task->context().size();
          const TokenId token = ++asked % 2 ? draw(*task) : repeat(*task);
          behind += task->context().size() == before + 1 && task->context().back() == token;
        }
    }
    int asked = 0;
    int behind = 0;

  private:
    static TokenId repeat(DraftTask& task) {
      const TokenId token = task.context().back();
      task.propose(token);
      return token;
    }
    static TokenId draw(DraftTask& task) {
      const TokenWeight weights[] = {{task.context().front(), 1}, {task.context().back(), 2}};
      return task.draw(weights);
    }
  };
  const Request request = person_request({Constraint::Kind::regex, "[ab]{40}c"}, 1, 7);
  const auto text = [&request](EngineOptions options) {
    EngineWorld world(std::move(options));
    const auto recorder = world.submit(request);
    REQUIRE(world.run_until_ended({recorder}));
    return recorder->answer.text;
  };
  const auto drafter = std::make_shared<Stubborn>();
  EngineOptions options = demo_in(SpeculationMode::overlap);
  options.custom_drafter = drafter;
  options.window = 4;
  CHECK(text(options) == text(demo_in(SpeculationMode::off)));
  CHECK(drafter->asked > 40);
  CHECK(drafter->behind == drafter->asked);
}
