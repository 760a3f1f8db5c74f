#include "models/sources.hpp"
#include "models/synthetic/scripted.hpp"
#include "models/synthetic/scripted_rows.hpp"
#include "tests/models/support.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <numeric>

using namespace paceline;
using namespace paceline::models;

namespace {

std::shared_ptr<const Model> make(const ScriptedOptions& options, int threads = 1) {
  auto model = make_scripted(options, test::device("cpu", threads));
  REQUIRE_MESSAGE(model, model.error().text());
  return *model;
}

double mass(const std::vector<float>& logits) {
  double sum = 0;
  for (const float x : logits)
    sum += std::exp(double(x));
  return sum;
}

/// How far a row of logits is from log p.
double distance(const std::vector<float>& logits, const std::vector<double>& p) {
  double worst = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    worst = std::max(worst, std::abs(std::exp(double(logits[i])) - p[i]));
  return worst;
}

} // namespace

TEST_CASE("a scripted draft overlaps its target by the acceptance asked for, in every context") {
  for (const bool peaked : {false, true}) {
    for (const int vocabulary : {4, 8, 64, 300}) {
      for (const double acceptance : {0.0, 0.3, 0.8, 0.97}) {
        ScriptedOptions target;
        target.vocabulary = vocabulary;
        target.peaked = peaked;
        ScriptedOptions draft = target;
        draft.acceptance = acceptance;
        int never_said = 0;
        int never_drafted = 0;
        for (TokenId i = 0; i < 100; ++i) {
          const TokenId context[] = {i, i * i % 7, i % 3};
          const auto p = scripted_row(target, context);
          const auto q = scripted_row(draft, context);
          double overlap = 0;
          for (std::size_t t = 0; t < p.size(); ++t) {
            overlap += std::min(p[t], q[t]);
            never_said += p[t] == 0 && q[t] > 0;
            never_drafted += p[t] > 0 && q[t] == 0;
          }
          CHECK(overlap == doctest::Approx(acceptance).epsilon(1e-12));
          CHECK(std::accumulate(p.begin(), p.end(), 0.0) == doctest::Approx(1));
          CHECK(std::accumulate(q.begin(), q.end(), 0.0) == doctest::Approx(1));
        }
        CHECK(never_said > 0);
        CHECK((never_drafted > 0 || acceptance > 0.9)); // a large token may bear it all
      }
    }
  }
}

TEST_CASE("a scripted row depends on the last tokens, their order and the seed, and on no more") {
  ScriptedOptions options;
  options.memory = 2;
  const auto row = [&](std::vector<TokenId> context) { return scripted_row(options, context); };
  CHECK(row({1, 2, 3}) == row({9, 2, 3}));
  CHECK(row({1, 2, 3}) != row({1, 9, 3}));
  CHECK(row({2, 3}) != row({3, 2}));
  CHECK(row({0}) != row({0, 0}));
  const auto before = row({2, 3});
  options.seed = 2;
  CHECK(row({2, 3}) != before);
  options.memory = 0;
  CHECK(row({2, 3}) == row({}));
}

TEST_CASE("a scripted model's logits are its rows, read from its cache pages") {
  ScriptedOptions options;
  options.vocabulary = 16;
  std::vector<TokenId> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = TokenId(i * i % 16);
  for (const int threads : {1, 2}) {
    test::Runner runner(make(options, threads), 4);
    const auto pages = runner.take_pages(40);
    const SequenceRows first{pages, 0, std::span(tokens).first(13), 3};
    const SequenceRows second{pages, 13, std::span(tokens).subspan(13), 0};
    auto logits = runner.run({&first, 1});
    REQUIRE(logits.size() == 10);
    for (auto& row : runner.run({&second, 1}))
      logits.push_back(std::move(row));
    for (std::size_t i = 3; i < tokens.size(); ++i) {
      CHECK(distance(logits[i - 3], scripted_row(options, std::span(tokens).first(i + 1))) < 1e-6);
      CHECK(mass(logits[i - 3]) == doctest::Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("a wrong page shows in a scripted model's output") {
  ScriptedOptions options;
  test::Runner runner(make(options), 4);
  const std::vector<TokenId> tokens{5, 6, 7, 8, 9};
  const auto pages = runner.take_pages(8);
  const auto wrong_pages = runner.take_pages(4);
  const SequenceRows prompt{pages, 0, std::span(tokens).first(4), 4};
  runner.run({&prompt, 1});
  const SequenceRows next{pages, 4, std::span(tokens).last(1), 0};
  const auto right = runner.run({&next, 1});
  const std::vector<std::uint32_t> mixed{wrong_pages[0], pages[1]};
  const SequenceRows astray{mixed, 4, std::span(tokens).last(1), 0};
  CHECK(runner.run({&astray, 1}) != right);
  CHECK(distance(right[0], scripted_row(options, tokens)) < 1e-6);
}

TEST_CASE("a scripted model is named by its options") {
  const auto options =
      parse_scripted("scripted:vocabulary=8,memory=2,seed=7,acceptance=0.8,context=99,peaked=1");
  REQUIRE(options);
  CHECK(options->vocabulary == 8);
  CHECK(options->memory == 2);
  CHECK(options->seed == 7);
  CHECK(options->acceptance == 0.8);
  CHECK(options->context == 99);
  CHECK(options->peaked);
  CHECK(parse_scripted("scripted"));
  for (const char* bad :
       {"scripted:", "scripted:vocabulary", "scripted:vocabulary=x", "scripted:vocabulary=8x",
        "scripted:colour=1", "scripted:vocabulary=1", "scripted:acceptance=1.5",
        "scripted:acceptance=nan", "scripted:vocabulary=2,acceptance=0.5", "scripted:memory=-1",
        "scripted:context=0", "scriptedx"}) {
    CAPTURE(bad);
    const auto refused = parse_scripted(bad);
    if (std::string(bad) == "scripted:") {
      CHECK(refused);
      continue;
    }
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
    CHECK(!refused.error().hint.empty());
  }
}

TEST_CASE("load_model and Tokenizer know scripted models by name") {
  const std::string name = "scripted:vocabulary=8,seed=3";
  const auto model = test::load(name, test::device(), {});
  REQUIRE(model);
  CHECK((*model)->vocabulary() == 8);
  CHECK((*model)->info().architecture == "scripted");
  const auto tokenizer = test::source_of(name)->tokenizer();
  REQUIRE(tokenizer);
  CHECK((*tokenizer)->encode("1 7  3\n") == std::vector<TokenId>{1, 7, 3});
  CHECK((*tokenizer)->decode(std::vector<TokenId>{1, 7}) == " 1 7");
  for (const TokenId id : (*tokenizer)->encode("8 -1 hello 99999999999999"))
    CHECK((*tokenizer)->known(id));
  CHECK(!test::load("scripted:vocabulary=0", test::device(), {}));
}
