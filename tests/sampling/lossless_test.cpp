// Promise 1 at the level of the rules: whatever windows, lookaheads and late drafts do, joint
// sequences have the target's distribution. False alarm: statistics.hpp.
#include "tests/sampling/window_world.hpp"

#include <doctest/doctest.h>
#include <random>
#include <string>

using namespace paceline;
using namespace paceline::testing;
using sampling::PhiloxBlock;

namespace {

/// A number that depends on the context, the role and an index; nothing else.
std::uint32_t scramble(const Tokens& context, std::uint32_t role, std::uint32_t index) {
  std::uint32_t h = 2166136261u;
  for (TokenId t : context)
    h = (h ^ std::uint32_t(t + 1)) * 16777619u;
  return sampling::philox(PhiloxBlock{{h, role, index, 0}}, 1, 2).word[0];
}

/// Rows without any pattern, some with impossible tokens. The draft's leans towards the target's.
World random_world() {
  const auto row = [](const Tokens& context, std::uint32_t role) {
    Row w(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto x = scramble(context, role, i);
      w[i] = x % 5 == 0 ? 0 : float(x >> 8) * 0x1p-24f + 0.02f;
    }
    w[scramble(context, role, 9) % 4] += 0.5f;
    float total = 0;
    for (float x : w)
      total += x;
    for (float& x : w)
      x /= total;
    return w;
  };
  const auto draft = [row](const Tokens& context) {
    Row q = row(context, 2);
    const Row p = row(context, 1);
    for (std::size_t i = 0; i < q.size(); ++i)
      q[i] = (q[i] + p[i]) / 2;
    return q;
  };
  return {4, 5, Rows([row](const Tokens& context) { return row(context, 1); }), Rows(draft)};
}

/// Rows in sixteenths whose ratios p/q, where below 1, are eighths: some tokens are impossible for
/// the target and likely for the draft.
World coarse_world() {
  const auto draft = [](const Tokens& context) {
    const auto shift = scramble(context, 3, 0);
    Row q{0.25f, 0.25f, 0.25f, 0.25f};
    q[shift % 4] = 0.375f;
    q[(shift + 1) % 4] = 0.125f;
    return q;
  };
  const auto target = [draft](const Tokens& context) {
    Row p = draft(context);
    const auto shift = scramble(context, 4, 0);
    float rest = 1;
    for (std::uint32_t i = 1; i < 4; ++i) {
      float& x = p[(shift + i) % 4];
      x *= float(scramble(context, 4, i) % 4) / 8; // 0 to 3 eighths
      rest -= x;
    }
    p[shift % 4] = rest;
    return p;
  };
  return {4, 4, Rows(target), Rows(draft)};
}

constexpr int samples = 200'000;
constexpr Fault faults[] = {
    Fault::accept_on_equal,  Fault::residual_not_normalised,     Fault::residual_is_target,
    Fault::bonus_from_draft, Fault::residual_shares_draft_noise, Fault::accept_keyed_as_draft,
    Fault::lookahead_kept,   Fault::token_dropped_by_value,      Fault::bound_after_draw,
};

} // namespace

TEST_CASE("Without a fault the test's judge is the judge") {
  std::mt19937 random(1);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    Row p(5), q(5);
    for (std::size_t t = 0; t < 5; ++t) {
      p[t] = float(random() % 4);
      q[t] = float(random() % 4);
    }
    p[random() % 5] += 1;
    const auto token = TokenId(random() % 5);
    for (auto rule : {Rule::rejection, Rule::coupled, Rule::match}) {
      const Noise noise{i, 3};
      const auto expected = sampling::judge(rule, p, q, token, noise, 8);
      const auto got = judge_with({}, rule, p, q, token, noise, 8, 6);
      CHECK((got.accepted == expected.accepted && got.token == expected.token));
    }
  }
}

TEST_CASE("Joint sequences have the target's distribution under every rule") {
  const World world = random_world();
  for (auto rule : {Rule::rejection, Rule::coupled, Rule::match}) {
    const auto fit = fit_of_outputs(world, rule, {}, samples);
    CAPTURE(int(rule));
    CHECK(fit.cells > 250);
    CHECK(fit.p_value > false_alarm);
  }
}

TEST_CASE("Rejection is exact where u is 0 or ties with p/q all the time") {
  const auto fit = fit_of_outputs(coarse_world(), Rule::rejection, {Fault::none, 8}, samples);
  CHECK(fit.cells > 50);
  CHECK(fit.p_value > false_alarm);
}

TEST_CASE("The same test catches every mistake") {
  for (const Fault fault : faults) {
    CAPTURE(int(fault));
    const bool coarse = fault == Fault::accept_on_equal;
    const World world = coarse ? coarse_world() : random_world();
    const auto fit = fit_of_outputs(world, Rule::rejection, {fault, coarse ? 8 : 0}, samples / 2);
    CHECK(fit.p_value < false_alarm);
  }
}

TEST_CASE("coupled writes the very tokens of plain sampling with the same seed") {
  const World world = random_world();
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    const Noise noise{seed, 1};
    Tokens plain;
    while (int(plain.size()) < world.length)
      plain.push_back(sampling::follow(Rule::coupled, world.target(plain), noise,
                                       3 + std::uint32_t(plain.size())));
    CHECK(WindowDecoder(world, Rule::coupled, {}, noise).run() == plain);
  }
}
