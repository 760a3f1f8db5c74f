// How much a node loads because engines ask.
#include "nodes/limits.hpp"
#include "nodes/node_parts.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::nodes;

namespace {

NodeParts::Wanted layers(int first) {
  messages::StageLayers range;
  range.first = first;
  range.count = 1;
  return {"cpu:0", "", "a target", range};
}

} // namespace

TEST_CASE("a node loads so many ranges of layers, and one more when an engine has let go of one") {
  NodeParts node;
  std::vector<NodeParts::LoadPlace> loading;
  for (int first = 0; first < int(limits::loads_max); ++first) {
    auto place = node.take_load_place(layers(first));
    REQUIRE(place);
    loading.push_back(*place);
  }
  const auto refused = node.take_load_place(layers(100));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::overloaded);
  CHECK(node.take_load_place(layers(3))); // which another engine has had loaded
  loading.pop_back();
  CHECK(node.take_load_place(layers(100)));
}
