// JSON as Python writes it.
#include "text/json.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <string>

using namespace paceline;
using namespace paceline::text;

TEST_CASE("numbers that JSON does not have become objects, and texts stay as they are") {
  const auto read = [](const std::string& text) {
    const auto object = parse_json_object("x", with_tagged_numbers(text));
    return object ? boost::json::serialize(*object) : object.error().text();
  };
  CHECK(read(R"({"a":[0.0,Infinity],"b":-Infinity,"c":NaN})") ==
        R"({"a":[0E0,{"__float__":"Infinity"}],"b":{"__float__":"-Infinity"},)"
        R"("c":{"__float__":"NaN"}})");
  const std::string quoted = R"({"Infinity":"-Infinity \" NaN","\\":"NaN"})";
  CHECK(with_tagged_numbers(quoted) == quoted);
  CHECK(with_tagged_numbers("{\"a\":\"\\") == "{\"a\":\"\\"); // A text that is cut.
  CHECK_FALSE(parse_json_object("x", R"({"a":Infinity})"));
}
