// Promises 1 and 2 with Gemma 4: layers that share keys, that have inputs of their own, and
// mixtures beside dense feed-forwards.
#include "tests/engine/family_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr const char* dense[] = {"Gemma 4",
                                 "Gemma 4 with embeddings of layers, and keys that these share"};
/// Its experts have 24 units, which are no two shards of whole eights.
constexpr const char* mixture = "Gemma 4 MoE";

} // namespace

TEST_CASE("with a Gemma 4: the same tokens in every mode, chunk, page, batch and team") {
  for (const char* name : {dense[0], dense[1], mixture}) {
    CAPTURE(std::string(name));
    check_modes(TinyModel(name));
  }
}

TEST_CASE("a Gemma 4 in stages has the tokens of the whole, and in shards tokens all the same") {
  for (const char* name : {dense[0], dense[1], mixture}) {
    CAPTURE(std::string(name));
    check_divided(TinyModel(name), {"suffix", "self:mxfp4"}, name != mixture);
  }
}
