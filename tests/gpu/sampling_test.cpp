// Drawing, judging and scoring on a lane: what the sampling layer's functions say, row by row.
#include "tests/gpu/rig.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr int vocabulary = 50;
constexpr int stride = 64; // Padding beyond the vocabulary holds NaN: it must not be read.

struct Rows {
  Rows(int count, Random& random) : logits(count, stride, random, 4.0f) {
    for (int r = 0; r < count; ++r)
      for (int i = vocabulary; i < stride; ++i)
        logits.tensor().row(r)[i] = std::numeric_limits<float>::quiet_NaN();
  }
  const float* row(int r) { return logits.tensor().row(r); }
  std::span<const float> span(int r) { return {row(r), vocabulary}; }
  Matrix logits;
};

std::vector<float> warped(std::span<const float> logits, const sampling::Warping& warping,
                          const sampling::History& history) {
  sampling::WarpScratch scratch;
  std::vector<float> p(logits.size());
  REQUIRE(sampling::warp(logits, vocabulary, warping, history, scratch, p));
  return p;
}

/// One family of CPU kernels, for they share the sampling layer's arithmetic, or a GPU.
std::vector<std::string> samplers() {
  std::vector<std::string> all = backends();
  std::erase_if(all, [](const std::string& name) { return name != "scalar" && !is_cuda(name); });
  return all;
}

sampling::Warping nucleus_with_penalties() {
  sampling::Warping warping;
  warping.temperature = 0.9f;
  warping.top_p = 0.95f;
  warping.repetition_penalty = 1.3f;
  warping.frequency_penalty = 0.5f;
  return warping;
}

} // namespace

TEST_CASE("proposing draws what the sampling layer draws, and leaves the row it drew from") {
  Random random(1);
  const auto warping = nucleus_with_penalties();
  const std::vector<TokenId> committed{1, 2, 3, 2};
  const sampling::History history{committed, 1, {}};
  for (const std::string& name : samplers())
    for (const int threads : {1, 3}) {
      CAPTURE(name);
      const Rig rig(name, threads);
      Rows rows(7, random);
      const auto memory = rig.device->allocate(sizeof(float) * 7 * (vocabulary + 3)).value();
      const Tensor q = memory->tensor(7, vocabulary + 3);
      std::fill_n(q.data, 7 * q.cols, 7.0f);
      std::vector<ProposeTask> tasks(7);
      for (int i = 0; i < 7; ++i) {
        ProposeTask& task = tasks[std::size_t(i)];
        task.logits = rows.row(i);
        task.vocabulary = vocabulary;
        task.warping = &warping;
        task.history = history;
        task.rule = sampling::Rule::rejection;
        task.noise = {99, std::uint32_t(i)};
        task.position = 17;
        task.attempt = 15;
        task.q = i % 2 ? q.row(i) : nullptr;
        task.q_size = q.cols;
      }
      rig.run([&](Operations& ops) { ops.propose(tasks); });
      for (int i = 0; i < 7; ++i) {
        const auto expected = warped(rows.span(i), warping, history);
        const auto& task = tasks[std::size_t(i)];
        CHECK(!task.failed);
        CHECK(task.token == sampling::propose(task.rule, expected, task.noise, 17, 15));
        if (!task.q)
          continue;
        CHECK(std::equal(expected.begin(), expected.end(), task.q));
        for (int beyond = vocabulary; beyond < task.q_size; ++beyond)
          CHECK(task.q[beyond] == 0);
      }
    }
}

TEST_CASE("what the piece before draws is fed and looked back at before the host has it") {
  Random random(8);
  const auto warping = nucleus_with_penalties();
  const std::vector<TokenId> committed{1, 2, 3, 2};
  const std::vector<TokenId> prefix{6};
  const HostWeight host(DType::f32, vocabulary, 20, random);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    const auto table = rig.device->pack({&host.matrix, 1}).value();
    Rows rows(12, random);
    Matrix fed(3, 20);
    std::array<std::array<ProposeTask, 3>, 4> tasks; // [piece][sequence]
    const auto place = [](const ProposeTask& t) { return t.place ? t.place : &t.token; };
    std::size_t prepared = 0; // Pieces; they run in the lane's thread, or before the next is.
    auto step = std::make_shared<TestStep>([&](Operations& ops) {
      const std::size_t piece = prepared - 1;
      if (piece > 0) {
        const std::array places{place(tasks[piece - 1][0]), place(tasks[piece - 1][1]),
                                place(tasks[piece - 1][2])};
        ops.embed_drawn(fed.tensor(), *table, places, 2);
      }
      ops.propose(tasks[piece]);
    });
    const auto prepare = [&] {
      if (prepared == tasks.size())
        return false;
      for (std::size_t s = 0; s < 3; ++s) {
        ProposeTask& task = tasks[prepared][s];
        task.logits = rows.row(int(prepared * 3 + s));
        task.vocabulary = vocabulary;
        task.warping = &warping;
        task.history = {committed, 1, prefix};
        task.noise = {99, std::uint32_t(s)};
        task.position = 17 + std::uint32_t(prepared);
        task.unseen = prepared > 0 ? place(tasks[prepared - 1][s]) : nullptr;
      }
      ++prepared;
      return true;
    };
    step->prepare_with = [&](base::TimePoint) {
      return prepare() ? Step::Next::ready : Step::Next::done;
    };
    step->prepare_behind_with = prepare;
    REQUIRE(rig.lane->submit(step));
    REQUIRE(step->wait().completed);
    for (std::size_t piece = 0; piece < tasks.size(); ++piece)
      for (std::size_t s = 0; s < 3; ++s) {
        std::vector<TokenId> seen = prefix;
        if (piece > 0)
          seen.push_back(tasks[piece - 1][s].token);
        const ProposeTask& task = tasks[piece][s];
        const auto expected = warped(rows.span(int(piece * 3 + s)), warping, {committed, 1, seen});
        CHECK(task.token == sampling::propose(task.rule, expected, task.noise, task.position, 0));
        if (piece + 2 == tasks.size())
          CHECK(fed.at(int(s), 5) == 2 * host.f32.at(task.token, 5));
      }
  }
}

TEST_CASE("a row with NaN fails its own task and no other") {
  for (const std::string& name : samplers()) {
    CAPTURE(name);
    Random random(2);
    const Rig rig(name, 2);
    const sampling::Warping greedy;
    Rows rows(4, random);
    rows.logits.tensor().row(1)[7] = std::numeric_limits<float>::quiet_NaN();
    std::vector<ProposeTask> proposals(2);
    std::vector<VerifyTask> judgements(2);
    const std::vector<TokenId> none;
    for (int i = 0; i < 2; ++i) {
      proposals[std::size_t(i)].logits = judgements[std::size_t(i)].logits = rows.row(i);
      proposals[std::size_t(i)].vocabulary = judgements[std::size_t(i)].vocabulary = vocabulary;
      proposals[std::size_t(i)].warping = judgements[std::size_t(i)].warping = &greedy;
      judgements[std::size_t(i)].stride = stride;
    }
    rig.run([&](Operations& ops) {
      ops.propose(proposals);
      ops.verify(judgements);
    });
    CHECK(!proposals[0].failed);
    CHECK(proposals[1].failed);
    CHECK(!judgements[0].failed);
    CHECK(judgements[0].ended);
    CHECK(judgements[1].failed);
    CHECK(!judgements[1].ended);
  }
}

TEST_CASE("judging a window is judging its rows in turn, each after the tokens accepted before") {
  Random random(3);
  const auto warping = nucleus_with_penalties();
  const std::vector<TokenId> committed{4, 5, 6};
  int full = 0;
  int partial = 0;
  for (const std::string& name : samplers())
    for (const sampling::Rule rule :
         {sampling::Rule::rejection, sampling::Rule::coupled, sampling::Rule::match})
      for (int round = 0; round < 40; ++round) {
        CAPTURE(name);
        const int window = round % 5;
        const bool follow = round % 3 != 0;
        const Rig rig(name, 1 + round % 2);
        std::vector<Rows> targets;
        std::vector<std::vector<TokenId>> tokens(3);
        std::vector<std::vector<std::vector<float>>> q(3);
        std::vector<std::vector<const float*>> q_rows(3);
        std::vector<VerifyTask> tasks(3);
        for (std::size_t t = 0; t < 3; ++t) {
          targets.emplace_back(window + 1, random);
          Rows& rows = targets.back();
          if (t == 0) // A peaked target and a draft that follows it: often accepted.
            for (float& x : rows.logits.values)
              x *= 5;
          for (int i = 0; i < window; ++i) {
            const sampling::History history{committed, 2, tokens[t]};
            q[t].push_back(warped(rows.span(i), warping, history));
            if (t == 1)
              std::rotate(q[t].back().begin(), q[t].back().begin() + 1, q[t].back().end());
            tokens[t].push_back(
                sampling::propose(rule, q[t].back(), {7, 0}, 3 + std::uint32_t(i), 3));
          }
          for (const auto& row : q[t])
            q_rows[t].push_back(row.data());
          VerifyTask& task = tasks[t];
          task.logits = rows.row(0);
          task.stride = stride;
          task.vocabulary = vocabulary;
          task.warping = &warping;
          task.history = {committed, 2, {}};
          task.rule = rule;
          task.noise = {7, 0};
          task.position = 3;
          task.tokens = tokens[t];
          if (rule == sampling::Rule::rejection)
            task.q = q_rows[t];
          task.follow = follow;
          task.top_logprobs = round % 2 ? 3 : -1;
          task.logprobs_mode = round % 4 == 1 ? LogprobsMode::raw : LogprobsMode::processed;
        }
        rig.run([&](Operations& ops) { ops.verify(tasks); });

        for (std::size_t t = 0; t < 3; ++t) {
          const VerifyTask& task = tasks[t];
          int accepted = 0;
          bool ended = false;
          TokenId next = 0;
          std::vector<TokenLogprob> logprobs;
          for (int row = 0; row <= window && !ended; ++row) {
            if (row == window && !follow)
              break;
            const sampling::History history{committed, 2,
                                            std::span(tokens[t]).first(std::size_t(row))};
            const auto p = warped(targets[t].span(row), warping, history);
            const auto position = 3 + std::uint32_t(row);
            sampling::Judgement judged;
            if (row < window)
              judged = sampling::judge(rule, p, q[t][std::size_t(row)], tokens[t][std::size_t(row)],
                                       {7, 0}, position);
            else
              judged.token = sampling::follow(rule, p, {7, 0}, position);
            logprobs.push_back(
                task.logprobs_mode == LogprobsMode::raw
                    ? sampling::logprob_of(targets[t].span(row), vocabulary, judged.token, 3)
                    : sampling::logprob_of_warped(p, judged.token, 3));
            accepted += judged.accepted;
            ended = !judged.accepted;
            next = ended ? judged.token : 0;
          }
          CHECK(!task.failed);
          CHECK(task.accepted == accepted);
          CHECK(task.ended == ended);
          if (ended)
            CHECK(task.next == next);
          if (task.top_logprobs < 0) {
            CHECK(task.logprobs.empty());
          } else {
            REQUIRE(task.logprobs.size() == logprobs.size());
            for (std::size_t i = 0; i < logprobs.size(); ++i) {
              CHECK(task.logprobs[i].token == logprobs[i].token);
              CHECK(task.logprobs[i].logprob == logprobs[i].logprob);
              CHECK(task.logprobs[i].top == logprobs[i].top);
            }
          }
          (accepted == window ? full : partial) += window > 0;
        }
      }
  if (!samplers().empty()) {
    CHECK(full > 20); // The rare paths were reached.
    CHECK(partial > 20);
  }
}

TEST_CASE("verification repeats the draws of judged tokens, and tells what is none") {
  Random random(6);
  sampling::Warping warping;
  warping.temperature = 1;
  enum Lie { none, other_token, not_normalised, negative, unjudged, another_rule };
  for (const std::string& name : samplers())
    for (const Lie lie : {none, other_token, not_normalised, negative, unjudged, another_rule})
      for (int round = 0; round < 5; ++round) {
        CAPTURE(name);
        CAPTURE(int(lie));
        const Rig rig(name, 1);
        Rows rows(3, random);
        std::vector<std::vector<float>> q;
        std::vector<TokenId> tokens;
        for (int i = 0; i < 2; ++i) {
          q.push_back(warped(rows.span(i), warping, {}));
          tokens.push_back(sampling::propose(sampling::Rule::rejection, q.back(), {8, 1},
                                             20 + std::uint32_t(i), 18));
        }
        if (lie == unjudged) // The first is rejected, so that the second is not looked at.
          rows.logits.tensor().row(0)[tokens[0]] = -std::numeric_limits<float>::infinity();
        if (lie == unjudged || lie == another_rule)
          tokens[1] = (tokens[1] + 1) % vocabulary;
        if (lie == other_token)
          tokens[0] = (tokens[0] + 1) % vocabulary;
        if (lie == not_normalised)
          for (float& x : q[0])
            x *= 1.5f;
        if (lie == negative) {
          q[0][std::size_t((tokens[0] + 1) % vocabulary)] -= 0.5f;
          q[0][std::size_t((tokens[0] + 2) % vocabulary)] += 0.5f;
        }
        const std::vector<const float*> q_rows{q[0].data(), q[1].data()};
        VerifyTask task;
        task.logits = rows.row(0);
        task.stride = stride;
        task.vocabulary = vocabulary;
        task.warping = &warping;
        task.noise = {8, 1};
        task.position = 20;
        task.tokens = tokens;
        if (lie == another_rule)
          task.rule = sampling::Rule::match;
        else
          task.q = q_rows;
        task.check_draws = true;
        task.attempt = 18;
        rig.run([&](Operations& ops) { ops.verify({&task, 1}); });
        CHECK(task.inconsistent_draw ==
              (lie == other_token || lie == not_normalised || lie == negative));
        if (lie == unjudged)
          CHECK(task.accepted == 0);
        task.check_draws = false;
        rig.run([&](Operations& ops) { ops.verify({&task, 1}); });
        CHECK(!task.inconsistent_draw);
      }
}

TEST_CASE("rows after the first rejection are never looked at") {
  for (const std::string& name : samplers()) {
    CAPTURE(name);
    Random random(4);
    const Rig rig(name, 1);
    const sampling::Warping greedy;
    Rows rows(3, random);
    const std::span<const float> first = rows.span(0);
    const auto best = TokenId(std::max_element(first.begin(), first.end()) - first.begin());
    rows.logits.tensor().row(2)[0] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<TokenId> tokens{best, vocabulary + 5}; // The second is no token at all.
    VerifyTask task;
    task.logits = rows.row(0);
    task.stride = stride;
    task.vocabulary = vocabulary;
    task.warping = &greedy;
    task.rule = sampling::Rule::match;
    task.tokens = tokens;
    rig.run([&](Operations& ops) { ops.verify({&task, 1}); });
    CHECK(!task.failed);
    CHECK(task.accepted == 1);
    CHECK(task.ended);
  }
}

TEST_CASE("scores are the raw log-probabilities of the given tokens, for any number of ranks") {
  Random random(5);
  for (const std::string& name : samplers())
    for (const int threads : {1, 2, 3}) {
      CAPTURE(name);
      const Rig rig(name, threads);
      Rows rows(9, random);
      const std::vector<TokenId> tokens{3, 1, 4, 1, 5, 9, 2, 6, 49};
      std::vector<ScoreTask> tasks(2);
      tasks[0] = {rows.row(0), stride, vocabulary, std::span(tokens).first(4), 2, {}};
      tasks[1] = {rows.row(4), stride, vocabulary, std::span(tokens).subspan(4), 0, {}};
      rig.run([&](Operations& ops) { ops.score(tasks); });
      REQUIRE(tasks[0].logprobs.size() == 4);
      REQUIRE(tasks[1].logprobs.size() == 5);
      for (int i = 0; i < 9; ++i) {
        const auto& got =
            i < 4 ? tasks[0].logprobs[std::size_t(i)] : tasks[1].logprobs[std::size_t(i - 4)];
        const auto expected =
            sampling::logprob_of(rows.span(i), vocabulary, tokens[std::size_t(i)], i < 4 ? 2 : 0);
        CHECK(got.token == expected.token);
        CHECK(got.logprob == expected.logprob);
        CHECK(got.top == expected.top);
      }
    }
}
