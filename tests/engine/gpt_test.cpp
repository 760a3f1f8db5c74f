// Promises 1 and 2 with targets of the GPT's kind: learned positions, layer norms, parallel layers.
#include "tests/engine/family_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr const char* gpts[] = {"GPT-2", "Pythia", "OPT", "GPT-J", "CodeGen"};

} // namespace

TEST_CASE("with a GPT: the same tokens in every mode, chunk, page, batch and team") {
  for (const char* name : gpts) {
    CAPTURE(std::string(name));
    check_modes(TinyModel(name));
  }
}

TEST_CASE("a GPT in stages has the tokens of the whole, and in shards tokens all the same") {
  for (const char* name : gpts) {
    CAPTURE(std::string(name));
    check_divided(TinyModel(name), {"suffix"});
  }
}
