#include "base/localhost.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace paceline;

TEST_CASE("localhost is loopback, and nobody is asked") {
  for (const char* name : {"localhost", "LocalHost", "localhost.", "node.localhost"}) {
    const auto found = base::localhost(name, 8001);
    REQUIRE(found);
    CHECK(!found->empty());
    CHECK(std::all_of(found->begin(), found->end(), [](const auto& entry) {
      return entry.endpoint().address().is_loopback() && entry.endpoint().port() == 8001;
    }));
    CHECK(std::any_of(found->begin(), found->end(),
                      [](const auto& entry) { return entry.endpoint().address().is_v4(); }));
  }
  for (const char* name : {"", ".", "localhost.example.org", "notlocalhost", "127.0.0.1"})
    CHECK(!base::localhost(name, 8001));
}
