// A model enlarged for measurements: of the size asked for, and of the same distribution.
#include "models/checkpoint/folder.hpp"
#include "models/synthetic/enlarge.hpp"
#include "tests/models/support.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::models;

namespace {

std::shared_ptr<const Model> load(const std::string& folder) {
  auto model = test::load(folder, test::device(), {});
  REQUIRE_MESSAGE(model, model.error().text());
  return *model;
}

std::vector<TokenId> some_tokens() {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 40; ++i)
    tokens.push_back(TokenId((i * i * 31 + 7) % 4096));
  return tokens;
}

double rms_difference(const std::vector<std::vector<float>>& a,
                      const std::vector<std::vector<float>>& b) {
  double squares = 0;
  double count = 0;
  for (std::size_t r = 0; r < a.size(); ++r)
    for (std::size_t i = 0; i < a[r].size(); ++i, ++count)
      squares += std::pow(double(a[r][i]) - double(b[r][i]), 2);
  return std::sqrt(squares / count);
}

constexpr Shape demo_target{384, 6, 6, 2, 64, 1024, 4096, true};

} // namespace

TEST_CASE("an enlarged model has the size asked for and the original's logits") {
  struct Case {
    const char* role;
    std::uint64_t parameters;
    int hidden;
    int layers;
  };
  // More layers and a wider feed-forward; a wider model; a wider model with more layers.
  for (const Case& c : {Case{"target", 15'000'000, 384, 8}, Case{"draft", 9'000'000, 512, 2},
                        Case{"draft", 12'000'000, 512, 3}}) {
    CAPTURE(c.role);
    CAPTURE(c.parameters);
    const test::TemporaryFolder folder;
    const auto written = enlarge_checkpoint(test::demo(c.role), folder.path(), {c.parameters}, {});
    REQUIRE_MESSAGE(written, written.error().text());
    const ModelConfig config = FolderSource(folder.path()).config().value();
    CHECK(config.hidden == c.hidden);
    CHECK(config.layers == c.layers);
    const auto large = load(folder.path());
    CHECK(double(large->info().parameters) == doctest::Approx(c.parameters).epsilon(0.05));
    const auto tokens = some_tokens();
    CHECK(rms_difference(test::logits_of(large, tokens),
                         test::logits_of(load(test::demo(c.role)), tokens)) < 1e-3);
  }
}

TEST_CASE("a model enlarged to a mixture has the size asked for and the original's logits") {
  const test::TemporaryFolder folder;
  const Enlargement wanted{20'000'000, true};
  const auto written = enlarge_checkpoint(test::demo("draft"), folder.path(), wanted, {});
  REQUIRE_MESSAGE(written, written.error().text());
  const ModelConfig config = FolderSource(folder.path()).config().value();
  CHECK(config.architecture == "MixtralForCausalLM");
  CHECK(config.mixture->experts == scaled_experts);
  const auto large = load(folder.path());
  CHECK(double(large->info().parameters) == doctest::Approx(wanted.parameters).epsilon(0.05));
  const auto tokens = some_tokens();
  CHECK(rms_difference(test::logits_of(large, tokens),
                       test::logits_of(load(test::demo("draft")), tokens)) < 1e-3);
  const auto small = enlarge_checkpoint(test::demo("target"), folder.path(), wanted, {});
  REQUIRE(!small);
  CHECK(small.error().message.find("its experts counted") != std::string::npos);
}

TEST_CASE("an enlarged model has the original's tokenizer and generation defaults") {
  const test::TemporaryFolder folder;
  REQUIRE(enlarge_checkpoint(test::demo("draft"), folder.path(), {1'500'000}, {}));
  for (const char* name : {"tokenizer.json", "generation_config.json"})
    CHECK(test::read_file(folder.path() + "/" + name) ==
          test::read_file(test::demo("draft") + "/" + name));
}

TEST_CASE("enlarged shapes keep heads in their groups and come close to the size asked for") {
  for (const std::uint64_t parameters :
       {12'000'000u, 35'000'000u, 350'000'000u, 1'000'000'000u, 3'000'000'000u}) {
    CAPTURE(parameters);
    const Shape shape = enlarged_shape(demo_target, {parameters}).value();
    CHECK(double(shape.parameters()) == doctest::Approx(parameters).epsilon(0.05));
    CHECK(shape.parameters() <= parameters);
    CHECK(shape.heads == 3 * shape.kv_heads);
    CHECK(shape.hidden == shape.heads * shape.head_dim);
    CHECK(shape.layers >= demo_target.layers);
    CHECK(shape.ffn >= demo_target.ffn);
  }
  CHECK(enlarged_shape(demo_target, {350'000'000})->hidden == 4 * 384);
  CHECK(enlarged_shape(demo_target, {3'000'000'000})->hidden == 16 * 384);
}

TEST_CASE("what cannot be enlarged is refused with a reason") {
  const test::TemporaryFolder folder;
  const auto smaller = enlarge_checkpoint(test::demo("target"), folder.path(), {1'000'000}, {});
  REQUIRE(!smaller);
  CHECK(smaller.error().message.find("cannot scale") != std::string::npos);

  const test::TemporaryFolder other;
  test::link_all(test::demo("draft"), other);
  std::string config = test::read_file(test::demo("draft") + "/config.json");
  const std::string name = "LlamaForCausalLM";
  config.replace(config.find(name), name.size(), "MistralForCausalLM");
  other.write("config.json", config);
  CHECK(!enlarge_checkpoint(other.path(), folder.path(), {9'000'000}, {}));
}
