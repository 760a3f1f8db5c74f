// Which values attention finds, in which rows: results that can be told exactly, and what is not
// finite.
#include "tests/gpu/attention_rig.hpp"

#include <cmath>
#include <functional>
#include <limits>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// Small whole numbers as values, and nothing that is rotated or normed: results can be told
/// exactly.
AttentionInput counted_input(AttentionHeads heads,
                             const std::function<float(int position, int column)>& query,
                             const std::function<float(int position, int column)>& key) {
  AttentionInput input(heads, {150, 33}, 7);
  for (Matrix& qkv : input.qkv)
    for (int p = 0; p < qkv.rows; ++p)
      for (int c = 0; c < qkv.cols; ++c) {
        float& x = qkv.tensor().row(p)[c];
        const int keys = heads.query * heads.dim;
        const int values = keys + heads.kv * heads.dim;
        x = c < keys     ? query(p, c % heads.dim)
            : c < values ? key(p, c % heads.dim)
                         : float(input.random.below(17) - 8);
      }
  return input;
}

/// What `expected(row's positions seen, value column)` says of each element of the result.
void check_counted(
    AttentionInput& input, const AttentionSetting& setting,
    const std::function<double(int, int, const std::function<float(int)>&)>& expected) {
  constexpr double tolerance = 2e-5; // One position more or less is a hundred times as much.
  const AttentionHeads& heads = input.heads;
  const auto results = attend(input, setting);
  for (std::size_t s = 0; s < results.size(); ++s) {
    const Matrix& qkv = input.qkv[s];
    double most = 0;
    for (int p = 0; p < qkv.rows; ++p)
      for (int c = 0; c < heads.query * heads.dim; ++c) {
        const int column = (heads.query + heads.kv) * heads.dim +
                           c / heads.dim / (heads.query / heads.kv) * heads.dim + c % heads.dim;
        const auto value = [&](int position) { return qkv.at(position, column); };
        const double off = std::abs(expected(setting.options(1).first_seen(p), p, value) -
                                    double(results[s].at(p, c)));
        most = off <= most ? most : off; // NaN counts as worst.
      }
    CHECK(most < tolerance);
  }
}

} // namespace

TEST_CASE("the first position's attention is its value, rounded as the cache rounds") {
  for (const KvType cached : {KvType::f32, KvType::bf16})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      AttentionInput input({2, 1, 32}, {1}, 5);
      AttentionSetting setting;
      setting.kernel = name;
      setting.cached = cached;
      const auto results = attend(input, setting);
      for (int i = 0; i < 64; ++i) {
        const float value = input.qkv[0].at(0, 3 * 32 + i % 32);
        CHECK(results[0].at(0, i) == (cached == KvType::f32 ? value : base::round_to_bf16(value)));
      }
    }
}

TEST_CASE("with a cache of int8 it is off by half a step at most") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    AttentionInput input({2, 1, 32}, {1}, 5);
    AttentionSetting setting;
    setting.kernel = name;
    setting.cached = KvType::int8;
    const auto results = attend(input, setting);
    float most = 0;
    for (int i = 0; i < 32; ++i)
      most = std::max(most, std::abs(input.qkv[0].at(0, 3 * 32 + i)));
    bool exact = true;
    for (int i = 0; i < 64; ++i) {
      const float value = input.qkv[0].at(0, 3 * 32 + i % 32);
      const float rounding = std::abs(value) / 256; // Of weights in bf16.
      CHECK(std::abs(results[0].at(0, i) - value) < most / 127 * 0.501f + rounding);
      exact &= results[0].at(0, i) == value;
    }
    CHECK_FALSE(exact);
  }
}

// A position's part of the softmax is small where the sink's is not.
TEST_CASE("a sink that weighs nothing changes no bit, and one that outweighs all leaves nothing") {
  for (const KvType cached : {KvType::f32, KvType::bf16, KvType::int8})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(to_string(cached));
      AttentionInput input({4, 2, 16}, {200}, 10);
      AttentionSetting setting;
      setting.kernel = name;
      setting.cached = cached;
      setting.chunk = 90;
      const auto without = attend(input, setting);
      setting.sinks = true;
      input.sinks = {-HUGE_VALF, 500, -HUGE_VALF, 500};
      const auto results = attend(input, setting);
      for (int p = 0; p < 200; ++p)
        for (int c = 0; c < 64; ++c)
          CHECK(results[0].at(p, c) == (c / 16 % 2 == 0 ? without[0].at(p, c) : 0.0f));
    }
}

TEST_CASE("NaN in a query or value shows in that row's attention and in no other sequence") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    AttentionInput input({2, 2, 16}, {40, 40}, 4);
    input.qkv[0].tensor().row(10)[0] = std::numeric_limits<float>::quiet_NaN();
    AttentionSetting setting;
    setting.kernel = name;
    setting.batch = true;
    const auto results = attend(input, setting);
    CHECK(std::isnan(results[0].at(10, 0)));
    CHECK(!std::isnan(results[0].at(9, 0)));
    for (const float value : results[1].values)
      REQUIRE(!std::isnan(value));
  }
}

TEST_CASE("every position that a row sees counts once, and the one asked for is found") {
  Random random(9);
  const Matrix signs(150, 128, random);
  const auto code = [&](int position, int column) { // Unlike for any two positions.
    return std::copysign(1.0f, signs.at(position, column));
  };
  const auto wanted = [](int first, int last) { return first + (last - first) * 5 / 7; };
  for (const std::string& name : backends())
    for (const AttentionHeads& heads :
         {AttentionHeads{3, 1, 48}, AttentionHeads{4, 2, 128}, AttentionHeads{20, 2, 32}})
      for (const auto& [page_tokens, window] : {std::pair(16, 0), {6, 21}, {32, 70}, {48, 64}}) {
        AttentionSetting setting;
        setting.kernel = name;
        setting.page_tokens = page_tokens;
        setting.window = window;
        CAPTURE(name);
        CAPTURE(heads.dim);
        CAPTURE(setting.page_tokens);
        CAPTURE(setting.window);
        setting.rotated = 0;
        setting.chunk = 70;
        setting.batch = true;
        AttentionInput all = counted_input(
            heads, [](int, int) { return 0.0f; }, code);
        check_counted(all, setting, [](int first, int last, const auto& value) {
          double sum = 0;
          for (int p = first; p <= last; ++p)
            sum += double(value(p));
          return sum / (last + 1 - first);
        });
        const auto ask = [&](int p, int column) {
          return 64 * code(wanted(setting.options(1).first_seen(p), p), column);
        };
        AttentionInput one = counted_input(heads, ask, code);
        check_counted(one, setting, [&](int first, int last, const auto& value) {
          return double(value(wanted(first, last)));
        });
      }
}

TEST_CASE("a value that is not finite shows in the rows that see it, and in no other") {
  struct Place {
    int query;    ///< Heads; two have keys. Kernels may take queries of some rows together.
    int position; ///< 63: the last of a block of keys on CPUs.
  };
  for (const std::string& name : backends())
    for (const Place place : {Place{4, 70}, Place{6, 63}})
      for (const auto& [cached, window] :
           {std::pair(KvType::bf16, 0), std::pair(KvType::bf16, 12), std::pair(KvType::f32, 0),
            std::pair(KvType::int8, 0), std::pair(KvType::int8, 12)})
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
          CAPTURE(name);
          CAPTURE(place.position);
          CAPTURE(window);
          CAPTURE(bad);
          AttentionInput input({place.query, 2, 32}, {120}, 8);
          AttentionSetting setting;
          setting.kernel = name;
          setting.cached = cached;
          setting.window = window;
          const Matrix clean = attend(input, setting)[0];
          // This is a value of the first head of keys.
          input.qkv[0].tensor().row(place.position)[(place.query + 2) * 32 + 3] = bad;
          const Matrix results = attend(input, setting)[0];
          const int after = window > 0 ? place.position + window : results.rows;
          CHECK(results.slice(0, place.position) == clean.slice(0, place.position));
          CHECK(results.slice(after, results.rows - after) ==
                clean.slice(after, results.rows - after));
          const int others = place.query / 2 * 32;
          for (int p = place.position; p < after; ++p) {
            CHECK(!std::isfinite(results.at(p, 3)));
            CHECK(results.at(p, others + 3) == clean.at(p, others + 3));
          }
        }
}
