#include "tests/exactness/coarse_rules.hpp"

namespace paceline::testing {
namespace {

constexpr Faults eighths{Fault::none, 8};

/// A number that depends on the context, the role and an index; nothing else.
std::uint32_t scramble(const Tokens& context, std::uint32_t role, std::uint32_t index) {
  std::uint32_t hash = 1;
  for (const TokenId token : context)
    hash = hash * 31 + std::uint32_t(token) + 1;
  return sampling::philox({{hash, role, index, 0}}, 1, 2).word[0];
}

Row coarse_draft(const Tokens& context) {
  const std::uint32_t shift = scramble(context, 0, 0);
  Row q{0.25f, 0.25f, 0.25f, 0.25f};
  q[shift % 4] = 0.375f;
  q[(shift + 1) % 4] = 0.125f;
  return q;
}

/// Up to three eighths of the draft's mass for all tokens but one, which gets the rest.
Row coarse_target(const Tokens& context) {
  Row p = coarse_draft(context);
  const std::uint32_t shift = scramble(context, 1, 0);
  float rest = 1;
  for (std::uint32_t i = 1; i < 4; ++i) {
    float& mass = p[(shift + i) % 4];
    mass *= float(scramble(context, 1, i) % 4) / 8;
    rest -= mass;
  }
  p[shift % 4] = rest;
  return p;
}

Tokens output_of(const sampling::History& history) {
  const auto committed = history.committed.subspan(history.prompt_tokens);
  Tokens output(committed.begin(), committed.end());
  output.insert(output.end(), history.prefix.begin(), history.prefix.end());
  return output;
}

} // namespace

World coarse_world(int length) {
  return {4, length, Rows(coarse_target), Rows(coarse_draft)};
}

void CoarseRules::propose(std::span<gpu::ProposeTask> tasks) const {
  for (gpu::ProposeTask& task : tasks) {
    const Row& q = world_.draft(output_of(task.history));
    std::copy(q.begin(), q.end(), task.q);
    task.token = sampling::propose(task.rule, q, task.noise, task.position, task.attempt);
  }
}

void CoarseRules::verify(std::span<gpu::VerifyTask> tasks) const {
  for (gpu::VerifyTask& task : tasks) {
    Tokens output = output_of(task.history);
    task.accepted = 0;
    task.ended = false;
    for (std::size_t row = 0; row < task.tokens.size() && !task.ended; ++row) {
      const Row q(task.q[row], task.q[row] + world_.vocabulary);
      const Judgement judgement =
          judge_with(eighths, task.rule, world_.target(output), q, task.tokens[row], task.noise,
                     task.position + std::uint32_t(row), 0);
      task.accepted += judgement.accepted;
      task.ended = !judgement.accepted;
      task.next = judgement.token;
      output.push_back(judgement.token);
    }
    if (task.ended || !task.follow)
      continue;
    task.next = sampling::follow(task.rule, world_.target(output), task.noise,
                                 task.position + std::uint32_t(task.tokens.size()));
    task.ended = true;
  }
}

} // namespace paceline::testing
