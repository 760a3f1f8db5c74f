// Rotation, the paged cache and attention: against the oracle, and bitwise whatever the page size,
// the chunks in which a prompt is fed, the batch and the ranks.
#include "tests/gpu/attention_rig.hpp"
#include "tests/support/effort.hpp"

#include <cmath>
#include <numeric>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// What models ask of attention.
std::vector<AttentionSetting> attention_variants() {
  std::vector<AttentionSetting> all(9);
  all[1].window = 37;
  all[2].soft_cap = 1.5f;
  all[3].rotated = 0;
  all[4].rotated = 6;
  all[5].norms = true;
  all[5].window = 1;
  all[5].soft_cap = 0.5f;
  all[6].sinks = true;
  all[6].window = 60; // So long that it can be cut in two where another row is not.
  all[7].norms = true;
  all[7].shared = true;
  all[8].norms = true;
  all[8].blocks = true;
  return all;
}

// Computes attention in double precision from its definition, with keys and values rounded as the
// cache rounds them.
Matrix exact_attention(const AttentionInput& input, int sequence, const AttentionSetting& setting) {
  const int query = input.heads.query;
  const int kv = input.heads.kv;
  const int dim = input.heads.dim;
  const AttentionOptions options = setting.options(dim);
  const Matrix& qkv = input.qkv[std::size_t(sequence)];
  const auto normed = [&](int p, int head, int i) {
    const float* row = qkv.values.data() + std::ptrdiff_t(p) * qkv.cols + head * dim;
    if (!setting.norms)
      return double(row[i]);
    const auto& weight = head < query        ? input.query_norm
                         : head < query + kv ? input.key_norm
                                             : input.value_norm;
    const double squares = std::inner_product(row, row + dim, row, 0.0);
    return row[i] / std::sqrt(squares / dim + double(attention_norm_epsilon)) *
           weight[std::size_t(i)];
  };
  const auto rotated = [&](int p, int head, int i) {
    const int half = setting.pairs(dim);
    if (i >= 2 * half)
      return normed(p, head, i);
    const double a = normed(p, head, i % half);
    const double b = normed(p, head, i % half + half);
    const double c = input.cos.at(p, i % half);
    const double s = input.sin.at(p, i % half);
    return i < half ? a * c - b * s : b * c + a * s;
  };
  const auto kept = [&](const auto& number, int p, int head) {
    std::vector<double> numbers;
    double most = 0;
    for (int i = 0; i < dim; ++i) {
      numbers.push_back(number(p, head, i));
      most = std::max(most, std::abs(numbers.back()));
    }
    for (double& x : numbers)
      if (setting.cached == KvType::bf16)
        x = double(base::round_to_bf16(float(x)));
      else if (setting.cached == KvType::int8 && most > 0)
        x = std::nearbyint(x / most * 127) * most / 127;
    return numbers;
  };
  Matrix out(qkv.rows, query * dim);
  for (int p = 0; p < qkv.rows; ++p)
    for (int h = 0; h < query; ++h) {
      const int shared = h / (query / kv);
      const int behind = std::min((p / setting.chunk + 1) * setting.chunk, qkv.rows);
      const int last = setting.blocks ? behind - 1 : p;
      std::vector<double> weight(std::size_t(last) + 1);
      double total = setting.sinks ? std::exp(double(input.sinks[std::size_t(h)])) : 0;
      for (int j = options.first_seen(last); j <= last; ++j) {
        const auto key = kept(rotated, j, query + shared);
        double score = 0;
        for (int i = 0; i < dim; ++i)
          score += rotated(p, h, i) * key[std::size_t(i)];
        score *= options.scale;
        if (options.soft_cap > 0)
          score = options.soft_cap * std::tanh(score / options.soft_cap);
        total += weight[std::size_t(j)] = std::exp(score);
      }
      std::vector<double> sums(std::size_t(dim), 0.0);
      for (int j = 0; j <= last; ++j) {
        const auto value = kept(normed, j, query + kv + shared);
        for (int i = 0; i < dim; ++i)
          sums[std::size_t(i)] += weight[std::size_t(j)] / total * value[std::size_t(i)];
      }
      for (int i = 0; i < dim; ++i)
        out.tensor().row(p)[h * dim + i] = float(sums[std::size_t(i)]);
    }
  return out;
}

Matrix ones(const Matrix& like) {
  Matrix result = like;
  std::fill(result.values.begin(), result.values.end(), 1.0f);
  return result;
}

} // namespace

TEST_CASE("the oracle's attention is the textbook's") {
  for (AttentionSetting setting : attention_variants())
    for (const KvType cached : {KvType::f32, KvType::bf16, KvType::int8}) {
      AttentionInput input({4, 2, 8}, {121, 5}, 1);
      setting.cached = cached;
      setting.chunk = 31;
      const auto results = attend(input, setting);
      // A key that rounds to the other neighbour in bf16 costs a little.
      const double tolerance = cached == KvType::f32 ? 1e-5 : 2e-2;
      for (int s = 0; s < 2; ++s) {
        const Matrix exact = exact_attention(input, s, setting);
        CHECK(worst(results[std::size_t(s)], exact, ones(exact)) < tolerance);
      }
    }
}

TEST_CASE("attention agrees with the oracle for every head shape, variant and cache format") {
  constexpr double tolerance = 1e-4;      // f32 cache; values lie in [-2, 2].
  constexpr double tolerance_bf16 = 2e-2; // A key may round to the other neighbour.
  constexpr double tolerance_int8 = 4e-2; // Neighbours are further apart.
  for (const AttentionHeads& heads :
       {AttentionHeads{6, 2, 64}, AttentionHeads{4, 2, 32}, AttentionHeads{5, 1, 16},
        AttentionHeads{3, 3, 48}, AttentionHeads{9, 1, 80}, AttentionHeads{2, 1, 24}})
    for (const KvType cached : {KvType::f32, KvType::bf16, KvType::int8})
      for (AttentionSetting setting : attention_variants()) {
        // All attention_variants with one shape; all shapes with a window.
        const bool few = heads.dim != 32 && setting.window != 37;
        if (few && (cached != KvType::f32 || paceline::testing::sanitized))
          continue;
        AttentionInput input(heads, {150, 33}, 2);
        setting.cached = cached;
        setting.chunk = 50;
        const auto expected = attend(input, setting);
        for (const std::string& name : backends()) {
          if (few && is_cuda(name))
            continue; // An emulated GPU takes its time.
          CAPTURE(name);
          CAPTURE(heads.dim);
          CAPTURE(to_string(cached));
          setting.kernel = name;
          const auto results = attend(input, setting);
          for (std::size_t s = 0; s < 2; ++s)
            CHECK(worst(results[s], expected[s], ones(expected[s])) <
                  (cached == KvType::f32    ? tolerance
                   : cached == KvType::bf16 ? tolerance_bf16
                                            : tolerance_int8));
        }
      }
}

TEST_CASE("attention has the same bits for every page size, chunk, batch and team") {
  for (const KvType cached : {KvType::f32, KvType::bf16, KvType::int8})
    for (const std::string& name : backends())
      for (AttentionSetting plain : attention_variants()) {
        if (plain.rotated >= 0 || plain.blocks) // what a row sees is not the same in all chunks
          continue;
        CAPTURE(name);
        CAPTURE(to_string(cached));
        CAPTURE(plain.window);
        AttentionInput input({6, 2, 32}, {137, 70}, 3);
        plain.kernel = name;
        plain.cached = cached;
        const auto reference = attend(input, plain);
        int round = 0;
        for (const int page_tokens : {2, 8, 16, 24, 32, 48, 128})
          for (const int chunk : {1, 7, 64, 1000}) {
            ++round;
            if ((page_tokens + chunk) % 3 == 0 && page_tokens != 16)
              continue; // Enough of the combinations; all of each alone.
            if ((is_cuda(name) || paceline::testing::sanitized) && round % 3 != 1)
              continue; // An emulated GPU takes its time, and sanitizers do.
            CAPTURE(page_tokens);
            CAPTURE(chunk);
            AttentionSetting setting = plain;
            setting.page_tokens = page_tokens;
            setting.chunk = chunk;
            setting.batch = round % 2 == 0;
            setting.copied = round % 4 == 1;
            setting.threads = chunk == 1 ? 1 : 1 + round % 3;
            CHECK(attend(input, setting) == reference);
          }
      }
}

TEST_CASE("attention has the same bits whether a call has many rows or few") {
  for (const KvType cached : {KvType::f32, KvType::bf16, KvType::int8})
    for (const std::string& name : backends())
      for (const int window : {0, 12}) {
        CAPTURE(name);
        CAPTURE(to_string(cached));
        CAPTURE(window);
        AttentionInput input({20, 1, 24}, {140, 20},
                             6); // Many heads of one key: a row fills a tile.
        AttentionSetting setting;
        setting.kernel = name;
        setting.cached = cached;
        setting.window = window;
        setting.batch = true;
        const auto reference = attend(input, setting);
        for (const int chunk : {5, 40}) {
          setting.chunk = chunk;
          setting.batch = chunk == 40;
          CHECK(attend(input, setting) == reference);
        }
      }
}

// More chunks of positions than a GPU joins at once, on the way (many rows) and from parts (few).
TEST_CASE("attention over a long context has the same bits in any chunks, and agrees") {
  for (const KvType cached : {KvType::f32, KvType::bf16, KvType::int8})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(to_string(cached));
      AttentionInput input({4, 4, 8}, {1100}, 7);
      AttentionSetting setting;
      setting.kernel = name;
      setting.cached = cached;
      setting.chunk = 1100;
      const auto reference = attend(input, setting);
      setting.chunk = 200;
      CHECK(attend(input, setting) == reference);
      setting.kernel = "scalar";
      const auto oracle = attend(input, setting);
      double worst = 0;
      for (int p = 0; p < 1100; ++p)
        for (int c = 0; c < 32; ++c) {
          const double off = std::abs(double(reference[0].at(p, c)) - double(oracle[0].at(p, c)));
          worst = off <= worst ? worst : off;
        }
      CHECK(worst < (cached == KvType::f32 ? 1e-5 : 2e-2));
    }
}

// Recorded, as in kernels_test.cpp.
TEST_CASE("portable attention has the same bits with AVX2 and with NEON") {
  AttentionSetting setting;
  setting.rotated = 0; // Angles are the C library's.
  for (const std::string& name : fused_kernel_names()) {
    CAPTURE(name);
    if (name == "highway-avx3")
      continue; // Not compared there yet.
    setting.kernel = name;
    AttentionInput input({6, 2, 32}, {137}, 5);
    setting.cached = KvType::bf16;
    CHECK(fingerprint(attend(input, setting)[0]) == 0x753A9A5419FFCFA1u);
    setting.cached = KvType::int8;
    CHECK(fingerprint(attend(input, setting)[0]) == 0x00074FFD29CD57BBu);
    setting.cached = KvType::f32;
    CHECK(fingerprint(attend(input, setting)[0]) == 0x882AFE81F5D1BC08u);
  }
}
