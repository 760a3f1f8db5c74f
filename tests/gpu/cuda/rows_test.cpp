// A row has the same bits whether a block has it, as on GPUs without clusters, or a cluster of up
// to eight blocks.
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/rig.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

enum class Kind { plain, equal, ties, peaked, two_greatest, masked, nan, nothing };
constexpr Kind kinds[] = {Kind::plain,        Kind::equal,  Kind::ties, Kind::peaked,
                          Kind::two_greatest, Kind::masked, Kind::nan,  Kind::nothing};

std::vector<float> logits_of(Kind kind, int vocabulary, Random& random) {
  std::vector<float> logits =
      random.floats(std::size_t(vocabulary), kind == Kind::plain ? 0.2f : 5);
  const auto at = [&](int i) -> float& { return logits[std::size_t(i % vocabulary)]; };
  switch (kind) {
  case Kind::plain: break;
  case Kind::equal: std::fill(logits.begin(), logits.end(), -1.0f); break;
  case Kind::ties:
    for (float& x : logits)
      x = std::round(x / 3) * 3;
    break;
  case Kind::peaked: at(vocabulary - 1) = 40; break;
  case Kind::two_greatest: at(vocabulary - 1) = at(vocabulary / 3) = infinity; break;
  case Kind::masked:
    for (int i = 0; i < vocabulary - 1; ++i)
      at(i) = i % 5 == 0 ? at(i) : -infinity;
    break;
  case Kind::nan: at(vocabulary / 2) = std::numeric_limits<float>::quiet_NaN(); break;
  case Kind::nothing: std::fill(logits.begin(), logits.end(), -infinity); break;
  }
  return logits;
}

std::vector<sampling::Warping> warpings() {
  std::vector<sampling::Warping> all(8);
  for (std::size_t i = 1; i < all.size(); ++i)
    all[i].temperature = 0.8f;
  all[2].top_p = 0.95f;
  all[3].top_k = 40;
  all[4].top_k = 1500;
  all[5].top_k = 700;
  all[5].top_p = 0.5f;
  all[6].top_p = 0.3f;
  all[6].min_p = 0.01f;
  all[7].top_p = 0.9f;
  all[7].repetition_penalty = 1.3f;
  all[7].frequency_penalty = 0.2f;
  all[7].logit_bias = {{3, 1.0f}, {3, -0.25f}, {1, -infinity}};
  return all;
}

/// What came of a row, bit for bit.
class RowBits {
public:
  void add(std::int64_t value) { all_.push_back(std::uint64_t(value)); }
  void add(bool value) { add(std::int64_t(value)); }
  void add(TokenId value) { add(std::int64_t(value)); }
  void add(float value) { add(std::int64_t(std::bit_cast<std::uint32_t>(value))); }
  void add(std::span<const float> values) {
    for (const float value : values)
      add(value);
  }
  bool operator==(const RowBits&) const = default;

private:
  std::vector<std::uint64_t> all_;
};

void add_proposal(RowBits& bits, const Rig& rig, const std::vector<float>& logits,
                  const sampling::Warping& warping, sampling::Rule rule, std::vector<float>& q,
                  TokenId& drawn) {
  static const std::vector<TokenId> committed{1, 2, 3, 2, 0};
  ProposeTask task;
  task.logits = logits.data();
  task.vocabulary = int(logits.size());
  task.warping = &warping;
  task.history = {committed, 1, {}};
  task.rule = rule;
  task.noise = {3, 1};
  task.position = 5;
  task.q = q.data();
  task.q_size = int(q.size());
  task.guesses_wanted = true;
  rig.run([&](Operations& ops) { ops.propose({&task, 1}); });
  bits.add(task.failed);
  if (task.failed)
    return;
  drawn = task.token;
  bits.add(task.token);
  bits.add(q);
  for (int i = 0; i < task.guesses.count; ++i)
    bits.add(task.guesses.tokens[std::size_t(i)]);
  bits.add(task.guesses.margin);
}

void add_verdict(RowBits& bits, const Rig& rig, const std::vector<float>& logits,
                 const sampling::Warping& warping, sampling::Rule rule, const std::vector<float>& q,
                 TokenId drawn) {
  const std::vector<float> other = [&] { // A row that the token's own q often rejects.
    std::vector<float> shifted(logits);
    std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
    shifted.insert(shifted.end(), logits.begin(), logits.end());
    return shifted;
  }();
  const float* const q_rows[] = {q.data()};
  VerifyTask task;
  task.logits = other.data();
  task.stride = task.vocabulary = int(logits.size());
  task.warping = &warping;
  task.rule = rule;
  task.noise = {3, 1};
  task.position = 5;
  task.tokens = {&drawn, 1};
  if (rule == sampling::Rule::rejection)
    task.q = q_rows;
  task.check_draws = true;
  task.top_logprobs = 5;
  task.logprobs_mode =
      rule == sampling::Rule::coupled ? LogprobsMode::raw : LogprobsMode::processed;
  rig.run([&](Operations& ops) { ops.verify({&task, 1}); });
  bits.add(task.failed);
  bits.add(task.inconsistent_draw);
  bits.add(std::int64_t(task.accepted));
  bits.add(task.next);
  for (const TokenLogprob& logprob : task.logprobs) {
    bits.add(logprob.logprob);
    for (const auto& [token, value] : logprob.top) {
      bits.add(token);
      bits.add(value);
    }
  }
}

/// Returns what a GPU of a compute capability makes of hard rows: each `every`-th of them.
std::vector<RowBits> all_bits(int capability_major, int vocabulary, unsigned every) {
  cuda_emulation::reset({.capability_major = capability_major});
  std::vector<RowBits> all;
  {
    const Rig rig("cuda:0", 1);
    Random random(unsigned(vocabulary) + 1);
    unsigned row = 0;
    for (const Kind kind : kinds) {
      const std::vector<float> logits = logits_of(kind, vocabulary, random);
      for (const sampling::Warping& warping : warpings())
        for (const auto rule : {sampling::Rule::rejection, sampling::Rule::coupled}) {
          if (row++ % every != 0)
            continue;
          std::vector<float> q(logits.size());
          TokenId drawn = 0;
          add_proposal(all.emplace_back(), rig, logits, warping, rule, q, drawn);
          add_verdict(all.back(), rig, logits, warping, rule, q, drawn);
        }
    }
  }
  CHECK(cuda_emulation::violation() == "");
  cuda_emulation::reset({});
  return all;
}

} // namespace

TEST_CASE("a row has the same bits from one block and from a cluster") {
  struct Size {
    int vocabulary;
    unsigned every;
  };
  // The last has more warps than a warp has lanes.
  for (const auto [vocabulary, every] : {Size{5, 1}, {513, 3}, {1025, 1}, {4099, 3}, {20011, 9}}) {
    CAPTURE(vocabulary);
    const std::size_t before = cuda_emulation::cluster_launches();
    const std::vector<RowBits> alone = all_bits(8, vocabulary, every);
    CHECK(cuda_emulation::cluster_launches() == before);
    const std::vector<RowBits> together = all_bits(9, vocabulary, every);
    CHECK((cuda_emulation::cluster_launches() > before) == (vocabulary >= 1024));
    REQUIRE(alone.size() == together.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      CAPTURE(i);
      CHECK(alone[i] == together[i]);
    }
  }
}
