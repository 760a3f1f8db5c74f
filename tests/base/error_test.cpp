#include "paceline/error.hpp"

#include "paceline/event.hpp"

#include <doctest/doctest.h>
#include <set>
#include <string>

using namespace paceline;

namespace {

/// Names of the first `count` enumerators; a name that is missing or double makes the set smaller.
template <class Enum>
std::set<std::string> names(int count) {
  std::set<std::string> all;
  for (int i = 0; i < count; ++i)
    all.insert(to_string(Enum(i)));
  return all;
}

} // namespace

TEST_CASE("an error's text is its message and hint in one line") {
  const Error error{ErrorCode::not_found, "no such file model.safetensors", "check the path"};
  CHECK(error.text() == "no such file model.safetensors: check the path");
}

TEST_CASE("an error without a hint is its message alone") {
  CHECK(Error{ErrorCode::internal, "the draft is gone", ""}.text() == "the draft is gone");
}

TEST_CASE("fail carries code, message and hint into a result") {
  const Result<int> result = fail(ErrorCode::overloaded, "the queue is full", "try again later");
  REQUIRE(!result);
  CHECK(result.error().code == ErrorCode::overloaded);
  CHECK(result.error().message == "the queue is full");
  CHECK(result.error().hint == "try again later");
}

TEST_CASE("every enumerator has a name of its own, as JSON and options spell it") {
  CHECK(names<ErrorCode>(int(ErrorCode::internal) + 1) ==
        std::set<std::string>{"invalid_argument", "not_found", "corrupt", "unsupported",
                              "out_of_memory", "overloaded", "cancelled", "deadline", "unavailable",
                              "internal"});
  CHECK(names<FinishReason>(int(FinishReason::error) + 1) ==
        std::set<std::string>{"stop", "length", "cancelled", "deadline", "error"});
  CHECK(to_string(SpeculationMode::off) == std::string("off"));
  CHECK(to_string(SpeculationMode::sync) == std::string("sync"));
  CHECK(to_string(SpeculationMode::overlap) == std::string("overlap"));
  CHECK(to_string(SpeculationMode::automatic) == std::string("auto"));
  CHECK(to_string(VerifyRule::rejection) == std::string("rejection"));
  CHECK(to_string(VerifyRule::coupled) == std::string("coupled"));
  CHECK(to_string(VerifyRule::match) == std::string("match"));
  CHECK(to_string(VerifyRule::automatic) == std::string("auto"));
}
