// Rows of the size that vocabularies have, cut by rank and by mass: what a back end draws from, and
// what it guesses, against the sampling layer.
#include "tests/gpu/rig.hpp"
#include "tests/sampling/toy_constraint.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The reference, and what is not it.
std::vector<std::string> warpers() {
  std::vector<std::string> all = backends();
  std::erase_if(all, [](const std::string& name) { return name != "scalar" && !is_cuda(name); });
  return all;
}

struct Case {
  const char* what = "";
  int vocabulary = 0;
  float spread = 0; ///< Of the logits.
  float step = 0;   ///< Logits are multiples of it: ties; 0: as they come.
  float temperature = 1;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

constexpr Case cases[] = {
    {"plain", 4000, 8},
    {"peaked, cut by mass", 4000, 30, 0, 0.7f, 0, 0.9f},
    {"flat, cut by mass: more than a pool holds", 4000, 0.1f, 0, 1, 0, 0.95f},
    {"a tenth of the mass", 4000, 4, 0, 1, 0, 0.1f},
    {"all equal, cut by mass", 3000, 0, 0, 1, 0, 0.5f},
    {"ties, cut by mass", 3000, 8, 1, 1, 0, 0.8f},
    {"cut by rank", 4000, 8, 0, 1, 40},
    {"ties, cut by rank", 4000, 8, 1, 1, 70},
    {"all equal, cut by rank", 3000, 0, 0, 1, 7},
    {"the first only", 4000, 8, 1, 1, 1},
    {"more ranks than threads", 3000, 8, 0, 1, 2500},
    {"by rank, then by mass", 4000, 8, 0, 1, 50, 0.6f},
    {"by rank, then by mass, with ties", 4000, 6, 2, 1, 300, 0.7f},
    {"by rank, then by mass, all equal", 3000, 0, 0, 1, 20, 0.5f},
    {"by mass and share", 4000, 8, 0, 1.5f, 0, 0.98f, 0.05f},
    {"share only", 4000, 8, 0, 1, 0, 1, 0.2f},
    {"hot", 1000, 8, 0, 50, 0, 0.9f},
    {"cold", 1000, 8, 0, 0.01f, 0, 0.9f},
    {"one block of the inversion and one more token", 513, 3, 0, 1, 0, 0.99f},
    {"tiny", 3, 2, 0, 1, 2, 0.9f},
};

std::vector<float> logits_of(const Case& c, Random& random) {
  std::vector<float> logits = random.floats(std::size_t(c.vocabulary), c.spread);
  for (float& x : logits)
    if (c.step > 0)
      x = std::round(x / c.step) * c.step;
  if (c.spread > 0 && c.vocabulary > 100) {
    logits[1] = -infinity;
    logits[17] = -0.0f;
    logits[18] = 0.0f;
  }
  return logits;
}

sampling::Warping warping_of(const Case& c) {
  sampling::Warping warping;
  warping.temperature = c.temperature;
  warping.top_k = c.top_k;
  warping.top_p = c.top_p;
  warping.min_p = c.min_p;
  return warping;
}

/// Bit for bit where zero; else within `units` in the last place.
bool close(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
    return (x == 0) == (y == 0) && std::abs(x - y) <= 1e-6f * std::abs(y);
  });
}

ProposeTask task_of(const std::vector<float>& logits, const sampling::Warping& warping,
                    std::vector<float>& q) {
  ProposeTask task;
  task.logits = logits.data();
  task.vocabulary = int(logits.size());
  task.warping = &warping;
  task.position = 5;
  task.q = q.data();
  task.q_size = int(q.size());
  return task;
}

std::vector<float> reference(const std::vector<float>& logits, const sampling::Warping& warping,
                             const sampling::History& history) {
  sampling::WarpScratch scratch;
  std::vector<float> p(logits.size());
  REQUIRE(sampling::warp(logits, int(logits.size()), warping, history, scratch, p));
  return p;
}

} // namespace

TEST_CASE("rows cut by rank, by mass and by share keep the tokens that the sampling layer keeps") {
  for (const std::string& name : warpers()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Random random(1);
    for (const Case& c : cases) {
      CAPTURE(c.what);
      const auto logits = logits_of(c, random);
      const auto warping = warping_of(c);
      std::vector<float> q(logits.size());
      for (const auto rule : {sampling::Rule::rejection, sampling::Rule::coupled}) {
        ProposeTask task = task_of(logits, warping, q);
        task.rule = rule;
        task.noise = {77, 1};
        rig.run([&](Operations& ops) { ops.propose({&task, 1}); });
        const auto expected = reference(logits, warping, {});
        CHECK(!task.failed);
        CHECK(close(q, expected));
        CHECK(task.token == sampling::propose(rule, expected, task.noise, 5, 0));
      }
    }
  }
}

TEST_CASE("biases and penalties add up in their order, for each token once") {
  for (const std::string& name : warpers()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Random random(2);
    const auto logits = random.floats(2000, 5);
    sampling::Warping warping;
    warping.temperature = 1;
    warping.repetition_penalty = 1.7f;
    warping.presence_penalty = 0.3f;
    warping.frequency_penalty = 0.11f;
    for (int i = 0; i < 300; ++i) // Many for one token; some for none.
      warping.logit_bias.emplace_back(i % 3 == 0 ? 7 : random.below(2100), random.next() * 3);
    warping.logit_bias.emplace_back(8, infinity);
    warping.logit_bias.emplace_back(9, -infinity);
    std::vector<TokenId> committed(900);
    for (TokenId& token : committed)
      token = random.below(4) == 0 ? 11 : random.below(2100) - 50;
    const std::vector<TokenId> prefix{11, 12, 13};
    const sampling::History history{committed, 100, prefix};
    std::vector<float> q(logits.size());
    ProposeTask task = task_of(logits, warping, q);
    task.history = history;
    warping.logit_bias.emplace_back(8, -infinity); // Off the greatest again.
    rig.run([&](Operations& ops) { ops.propose({&task, 1}); });
    CHECK(!task.failed);
    CHECK(close(q, reference(logits, warping, history)));
  }
}

TEST_CASE("each row has the tokens that the constraint allows behind those before it") {
  for (const std::string& name : warpers()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Random random(5);
    const auto logits = random.floats(3 * 2001, 3);
    sampling::Warping warping;
    warping.temperature = 1;
    warping.top_k = 40;
    for (int i = 0; i < 1500; ++i)
      warping.allowed.push_back(i);
    warping.constraint = std::make_shared<paceline::testing::ToyConstraint>(2001, 9);
    const std::vector<TokenId> committed{1, 2, 3, 4};
    const std::vector<TokenId> judged{7, 11};
    VerifyTask task;
    task.logits = logits.data();
    task.stride = 2001;
    task.vocabulary = 2001;
    task.warping = &warping;
    task.tokens = judged;
    task.rule = sampling::Rule::coupled;
    task.top_logprobs = 20;
    task.logprobs_mode = LogprobsMode::processed;
    for (std::size_t row = 0; row <= judged.size(); ++row) {
      task.history = {committed, 2, std::span(judged).first(row)};
      task.tokens = std::span(judged).subspan(row);
      const std::vector<float> own(logits.begin() + long(row * 2001),
                                   logits.begin() + long(row + 1) * 2001);
      task.logits = logits.data() + row * 2001;
      rig.run([&](Operations& ops) { ops.verify({&task, 1}); });
      REQUIRE(!task.failed);
      const auto p = reference(own, warping, task.history);
      for (const auto& [token, logprob] : task.logprobs.at(0).top)
        if (logprob > -100)
          CHECK(std::exp(logprob) == doctest::Approx(p[std::size_t(token)]).epsilon(1e-3));
      const TokenId drawn = task.accepted > 0 ? task.tokens[0] : task.next;
      CHECK(p[std::size_t(drawn)] > 0);
    }
  }
}

TEST_CASE("tokens that are not allowed, or held back so early, are impossible") {
  for (const std::string& name : warpers()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Random random(4);
    const auto logits = random.floats(2000, 5);
    sampling::Warping warping;
    warping.temperature = 1;
    for (int i = 0; i < 200; ++i)
      warping.allowed.push_back(10 * i);
    warping.held_back = {500, 1990, 5000};
    warping.min_tokens = 4;
    warping.logit_bias = {{500, 20.0f}, {1000, 3.0f}, {1001, infinity}};
    const std::vector<TokenId> committed{1, 2, 3, 4};
    for (const std::size_t prompt_tokens : {1, 0}) { // three tokens of output, and four
      CAPTURE(prompt_tokens);
      std::vector<float> q(logits.size());
      ProposeTask task = task_of(logits, warping, q);
      task.history = {committed, prompt_tokens, {}};
      rig.run([&](Operations& ops) { ops.propose({&task, 1}); });
      CHECK(!task.failed);
      CHECK(close(q, reference(logits, warping, task.history)));
      CHECK((q[500] > 0) == (prompt_tokens == 0));
      CHECK(q[1001] == 0);
    }
    // Judged rows go past the bound: the one behind three tokens may draw what was held back.
    warping.temperature = 0;
    const std::vector<TokenId> judged{1000};
    std::vector<float> rows = logits;
    rows.insert(rows.end(), logits.begin(), logits.end());
    VerifyTask task;
    task.logits = rows.data();
    task.stride = int(logits.size());
    task.vocabulary = int(logits.size());
    task.warping = &warping;
    task.history = {committed, 1, {}};
    task.tokens = judged;
    task.rule = sampling::Rule::match;
    warping.logit_bias.push_back({1000, 20.0f}); // first without 500, then with it
    warping.logit_bias.push_back({500, 20.0f});
    rig.run([&](Operations& ops) { ops.verify({&task, 1}); });
    CHECK(task.accepted == 1);
    CHECK(task.next == 500);
  }
}

TEST_CASE("guesses are the sampling layer's, with and without noise, and so is their margin") {
  for (const std::string& name : warpers()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Random random(3);
    for (const int vocabulary : {1500, 70, 6, 1})
      for (const float step : {0.0f, 2.0f})
        for (const float temperature : {0.0f, 0.8f})
          for (const auto rule : {sampling::Rule::rejection, sampling::Rule::coupled}) {
            const Case c{"", vocabulary, 6, step, temperature};
            const auto logits = logits_of(c, random);
            const auto warping = warping_of(c);
            std::vector<float> q(logits.size());
            ProposeTask task = task_of(logits, warping, q);
            task.rule = rule;
            task.guesses_wanted = true;
            rig.run([&](Operations& ops) { ops.propose({&task, 1}); });
            sampling::WarpScratch scratch;
            const auto expected = sampling::guess(logits, vocabulary, warping, {}, rule, task.noise,
                                                  task.position, task.token, scratch);
            REQUIRE(task.guesses.count == expected.count);
            CHECK(std::equal(expected.tokens.begin(), expected.tokens.begin() + expected.count,
                             task.guesses.tokens.begin()));
            if (expected.count > 0)
              CHECK(task.guesses.margin == doctest::Approx(expected.margin).epsilon(1e-6));
            else
              CHECK(task.guesses.margin == expected.margin);
          }
  }
}

TEST_CASE(
    "a row of NaN, of nothing possible, or with the greatest of all logits is known as such") {
  for (const std::string& name : warpers()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    for (const float temperature : {0.0f, 1.0f}) {
      sampling::Warping warping;
      warping.temperature = temperature;
      std::vector<float> q(600);
      const auto propose = [&](const std::vector<float>& logits) {
        ProposeTask task = task_of(logits, warping, q);
        rig.run([&](Operations& ops) { ops.propose({&task, 1}); });
        return task;
      };
      std::vector<float> logits(600, 0.0f);
      logits[599] = std::numeric_limits<float>::quiet_NaN();
      CHECK(propose(logits).failed);
      CHECK(propose(std::vector<float>(600, -infinity)).failed);
      logits[599] = logits[300] = infinity;
      const ProposeTask task = propose(logits);
      CHECK(!task.failed);
      CHECK((temperature == 0 ? task.token == 300 : task.token == 300 || task.token == 599));
    }
  }
}
