// Rotation, the paged cache and attention: against the oracle, and bitwise whatever the page size,
// the chunks in which a prompt is fed, the batch and the ranks.
#include "gpu/kv_pool.hpp"
#include "tests/gpu/rig.hpp"
#include "tests/support/effort.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

struct Heads {
  int query;
  int kv;
  int dim;
  int columns() const { return (query + 2 * kv) * dim; }
};

struct Setting {
  std::string kernel = "scalar";
  int threads = 1;
  int page_tokens = 16;
  DType dtype = DType::bf16;
  int chunk = 1000;   ///< Rows of a sequence fed at a time.
  bool batch = false; ///< Both sequences in one batch, else one after the other.
  int window = 0;
  float soft_cap = 0;
  int rotated = -1; ///< Dimensions; -1: all.
  bool norms = false;
  bool sinks = false;
  bool shared = false; ///< Queries are computed alone, and read what was stored before.

  AttentionOptions options(int dim) const { return {1 / std::sqrt(float(dim)), soft_cap, window}; }
  int pairs(int dim) const { return (rotated < 0 ? dim : rotated) / 2; }
};

/// What models ask of attention.
std::vector<Setting> variants() {
  std::vector<Setting> all(8);
  all[1].window = 37;
  all[2].soft_cap = 1.5f;
  all[3].rotated = 0;
  all[4].rotated = 6;
  all[5].norms = true;
  all[5].window = 1;
  all[5].soft_cap = 0.5f;
  all[6].sinks = true;
  all[6].window = 37;
  all[7].norms = true;
  all[7].shared = true;
  return all;
}

/// Two sequences' queries, keys and values.
struct Input {
  /// Returns as many positions as the longest sequence has, and a few more.
  int positions() const { return std::max(300, *std::max_element(lengths.begin(), lengths.end())); }
  Input(Heads h, std::vector<int> sequences, std::uint64_t seed)
      : heads(h), lengths(std::move(sequences)), random(seed), cos(positions(), h.dim / 2),
        sin(positions(), h.dim / 2) {
    for (int length : lengths)
      qkv.emplace_back(length, h.columns(), random, 2.0f);
    query_norm = random.floats(std::size_t(h.dim), 2);
    key_norm = random.floats(std::size_t(h.dim), 2);
    value_norm = random.floats(std::size_t(h.dim), 2);
    sinks = random.floats(std::size_t(h.query), 4);
    for (int p = 0; p < cos.rows; ++p)
      for (int i = 0; i < cos.cols; ++i) {
        const double angle = p * std::pow(10000.0, -double(i) / cos.cols);
        cos.tensor().row(p)[i] = float(std::cos(angle));
        sin.tensor().row(p)[i] = float(std::sin(angle));
      }
  }
  Heads heads;
  std::vector<int> lengths;
  Random random;
  std::vector<Matrix> qkv;
  std::vector<float> query_norm;
  std::vector<float> key_norm;
  std::vector<float> value_norm;
  std::vector<float> sinks; ///< A score of each head.
  Matrix cos;
  Matrix sin;
};

constexpr float norm_epsilon = 0.01f;

/// Feeds the input through rope_store and attention; a result per sequence.
class Runner {
public:
  Runner(Input& input, const Setting& setting)
      : input_(input), setting_(setting),
        rig_(setting.kernel, setting.threads), layout_{2, input.heads.kv, input.heads.dim,
                                                       setting.page_tokens, setting.dtype} {
    const int pages_each = input.positions() / setting.page_tokens + 1;
    const std::size_t before = 48; // Bytes of each position in layers of other shapes.
    layout_.begin = before * std::size_t(setting.page_tokens);
    pool_ = KvPool::create(*rig_.device, {setting.page_tokens, layout_.token_bytes() + before},
                           std::size_t(pages_each) * input.lengths.size())
                .value();
    // NaN where nothing was written; sequences' pages interleaved, so that none is at its place.
    std::fill_n(reinterpret_cast<std::uint32_t*>(pool_->page(0)),
                pool_->shape().page_bytes() / 4 * pool_->ledger().total, 0x7FC07FC0u);
    tables_.resize(input.lengths.size());
    for (int i = 0; i < pages_each; ++i)
      for (auto& table : tables_)
        table.push_back(std::uint32_t(pages_.size() + 0)), pages_.push_back(pool_->take());
  }

  std::vector<Matrix> run() {
    std::vector<Matrix> results;
    for (int length : input_.lengths)
      results.emplace_back(length, input_.heads.query * input_.heads.dim);
    const int longest = *std::max_element(input_.lengths.begin(), input_.lengths.end());
    for (int first = 0; first < longest; first += setting_.chunk) {
      std::vector<std::pair<int, int>> rows; // (sequence, position)
      for (int s = 0; s < int(input_.lengths.size()); ++s) {
        for (int p = first; p < std::min(first + setting_.chunk, input_.lengths[std::size_t(s)]);
             ++p)
          rows.emplace_back(s, p);
        if (!setting_.batch)
          feed(std::exchange(rows, {}), results);
      }
      feed(rows, results);
      forget(first + setting_.chunk);
    }
    return results;
  }

private:
  /// What no position from `next` on sees may be anything.
  void forget(int next) {
    const int behind = setting_.options(1).first_seen(next) / setting_.page_tokens;
    for (const auto& table : tables_)
      for (int i = 0; i < std::min(behind, int(table.size())); ++i)
        std::fill_n(reinterpret_cast<std::uint32_t*>(pool_->page(table[std::size_t(i)])),
                    pool_->shape().page_bytes() / 4, 0x7FC07FC0u);
  }

  void feed(const std::vector<std::pair<int, int>>& rows, std::vector<Matrix>& results) {
    if (rows.empty())
      return;
    const int count = int(rows.size());
    Matrix qkv(count, input_.heads.columns());
    Matrix out(count, input_.heads.query * input_.heads.dim);
    RowMap map;
    for (const auto& table : tables_)
      map.pages.emplace_back(table);
    for (int r = 0; r < count; ++r) {
      const auto [sequence, position] = rows[std::size_t(r)];
      map.sequence.push_back(sequence);
      map.position.push_back(position);
      std::copy_n(input_.qkv[std::size_t(sequence)].tensor().row(position), qkv.cols,
                  qkv.tensor().row(r));
    }
    const KvLayer cache{pool_.get(), layout_, 1};
    RopeTable rope{input_.cos.tensor(), input_.sin.tensor()};
    rope.cos.cols = rope.sin.cols = setting_.pairs(input_.heads.dim);
    HeadNorms norms;
    if (setting_.norms)
      norms = {input_.query_norm.data(), input_.key_norm.data(), norm_epsilon,
               input_.value_norm.data()};
    AttentionOptions options = setting_.options(input_.heads.dim);
    if (setting_.sinks)
      options.sinks = input_.sinks.data();
    Matrix alone(count, out.cols);
    for (int r = 0; r < count; ++r)
      std::copy_n(qkv.tensor().row(r), alone.cols, alone.tensor().row(r));
    rig_.run([&](Operations& ops) {
      ops.rope_store(qkv.tensor(), input_.heads.query, rope, norms, map, cache);
      if (setting_.shared)
        ops.rope_store(alone.tensor(), input_.heads.query, rope, norms, map, cache);
      ops.attention(out.tensor(), (setting_.shared ? alone : qkv).tensor(), input_.heads.query,
                    options, map, cache);
    });
    for (int r = 0; r < count; ++r) {
      const auto [sequence, position] = rows[std::size_t(r)];
      std::copy_n(out.tensor().row(r), out.cols,
                  results[std::size_t(sequence)].tensor().row(position));
    }
  }

  Input& input_;
  Setting setting_;
  Rig rig_;
  KvLayout layout_;
  std::shared_ptr<KvPool> pool_;
  std::vector<PageRef> pages_;
  std::vector<std::vector<std::uint32_t>> tables_;
};

std::vector<Matrix> attend(Input& input, const Setting& setting) {
  return Runner(input, setting).run();
}

// In double precision, from the definition; keys and values rounded as the cache rounds them.
Matrix exact_attention(const Input& input, int sequence, const Setting& setting) {
  const int query = input.heads.query;
  const int kv = input.heads.kv;
  const int dim = input.heads.dim;
  const DType dtype = setting.dtype;
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
    return row[i] / std::sqrt(squares / dim + double(norm_epsilon)) * weight[std::size_t(i)];
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
  const auto stored = [&](double x) {
    return dtype == DType::bf16 ? double(base::round_to_bf16(float(x))) : x;
  };
  Matrix out(qkv.rows, query * dim);
  for (int p = 0; p < qkv.rows; ++p)
    for (int h = 0; h < query; ++h) {
      const int shared = h / (query / kv);
      std::vector<double> weight(std::size_t(p) + 1);
      double total = setting.sinks ? std::exp(double(input.sinks[std::size_t(h)])) : 0;
      for (int j = options.first_seen(p); j <= p; ++j) {
        double score = 0;
        for (int i = 0; i < dim; ++i)
          score += rotated(p, h, i) * stored(rotated(j, query + shared, i));
        score *= options.scale;
        if (options.soft_cap > 0)
          score = options.soft_cap * std::tanh(score / options.soft_cap);
        total += weight[std::size_t(j)] = std::exp(score);
      }
      for (int i = 0; i < dim; ++i) {
        double sum = 0;
        for (int j = 0; j <= p; ++j)
          sum += weight[std::size_t(j)] / total * stored(normed(j, query + kv + shared, i));
        out.tensor().row(p)[h * dim + i] = float(sum);
      }
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
  for (Setting setting : variants())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Input input({4, 2, 8}, {121, 5}, 1);
      setting.dtype = dtype;
      setting.chunk = 31;
      const auto results = attend(input, setting);
      // A key that rounds to the other neighbour in bf16 costs a little.
      const double tolerance = dtype == DType::f32 ? 1e-5 : 2e-2;
      for (int s = 0; s < 2; ++s) {
        const Matrix exact = exact_attention(input, s, setting);
        CHECK(worst(results[std::size_t(s)], exact, ones(exact)) < tolerance);
      }
    }
}

TEST_CASE("attention agrees with the oracle for every head shape, variant and cache format") {
  constexpr double tolerance = 1e-4;      // f32 cache; values lie in [-2, 2].
  constexpr double tolerance_bf16 = 2e-2; // A key may round to the other neighbour.
  for (const Heads& heads : {Heads{6, 2, 64}, Heads{4, 2, 32}, Heads{5, 1, 16}, Heads{3, 3, 48},
                             Heads{9, 1, 80}, Heads{2, 1, 24}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (Setting setting : variants()) {
        // All variants with one shape; all shapes with a window.
        const bool few = heads.dim != 32 && setting.window != 37;
        if (few && (dtype == DType::bf16 || paceline::testing::sanitized))
          continue;
        Input input(heads, {150, 33}, 2);
        setting.dtype = dtype;
        setting.chunk = 50;
        const auto expected = attend(input, setting);
        for (const std::string& name : backends()) {
          if (few && is_cuda(name))
            continue; // An emulated GPU takes its time.
          CAPTURE(name);
          CAPTURE(heads.dim);
          CAPTURE(to_string(dtype));
          setting.kernel = name;
          const auto results = attend(input, setting);
          for (std::size_t s = 0; s < 2; ++s)
            CHECK(worst(results[s], expected[s], ones(expected[s])) <
                  (dtype == DType::f32 ? tolerance : tolerance_bf16));
        }
      }
}

TEST_CASE("attention has the same bits for every page size, chunk, batch and team") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : backends())
      for (Setting plain : variants()) {
        if (plain.rotated >= 0)
          continue;
        CAPTURE(name);
        CAPTURE(to_string(dtype));
        CAPTURE(plain.window);
        Input input({6, 2, 32}, {137, 70}, 3);
        plain.kernel = name;
        plain.dtype = dtype;
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
            Setting setting = plain;
            setting.page_tokens = page_tokens;
            setting.chunk = chunk;
            setting.batch = round % 2 == 0;
            setting.threads = chunk == 1 ? 1 : 1 + round % 3;
            CHECK(attend(input, setting) == reference);
          }
      }
}

TEST_CASE("attention has the same bits whether a call has many rows or few") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : backends())
      for (const int window : {0, 12}) {
        CAPTURE(name);
        CAPTURE(to_string(dtype));
        CAPTURE(window);
        Input input({20, 1, 24}, {140, 20}, 6); // Many heads of one key: a row fills a tile.
        Setting setting;
        setting.kernel = name;
        setting.dtype = dtype;
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
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(to_string(dtype));
      Input input({4, 4, 8}, {1100}, 7);
      Setting setting;
      setting.kernel = name;
      setting.dtype = dtype;
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
      CHECK(worst < (dtype == DType::f32 ? 1e-5 : 2e-2));
    }
}

// Recorded, as in kernels_test.cpp.
TEST_CASE("portable attention has the same bits with AVX2 and with NEON") {
  Setting setting;
  setting.rotated = 0; // Angles are the C library's.
  for (const std::string& name : fused_kernel_names()) {
    CAPTURE(name);
    if (name == "highway-avx3")
      continue; // Not compared there yet.
    setting.kernel = name;
    Input input({6, 2, 32}, {137}, 5);
    setting.dtype = DType::bf16;
    CHECK(fingerprint(attend(input, setting)[0]) == 0x753A9A5419FFCFA1u);
    setting.dtype = DType::f32;
    CHECK(fingerprint(attend(input, setting)[0]) == 0x882AFE81F5D1BC08u);
  }
}

TEST_CASE("the first position's attention is its value, rounded as the cache rounds") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      Input input({2, 1, 32}, {1}, 5);
      Setting setting;
      setting.kernel = name;
      setting.dtype = dtype;
      const auto results = attend(input, setting);
      for (int i = 0; i < 64; ++i) {
        const float value = input.qkv[0].at(0, 3 * 32 + i % 32);
        CHECK(results[0].at(0, i) == (dtype == DType::f32 ? value : base::round_to_bf16(value)));
      }
    }
}

// A position's part of the softmax is small where the sink's is not.
TEST_CASE("a sink that weighs nothing changes no bit, and one that outweighs all leaves nothing") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(to_string(dtype));
      Input input({4, 2, 16}, {200}, 10);
      Setting setting;
      setting.kernel = name;
      setting.dtype = dtype;
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
    Input input({2, 2, 16}, {40, 40}, 4);
    input.qkv[0].tensor().row(10)[0] = std::numeric_limits<float>::quiet_NaN();
    Setting setting;
    setting.kernel = name;
    setting.batch = true;
    const auto results = attend(input, setting);
    CHECK(std::isnan(results[0].at(10, 0)));
    CHECK(!std::isnan(results[0].at(9, 0)));
    for (const float value : results[1].values)
      REQUIRE(!std::isnan(value));
  }
}

namespace {

/// Small whole numbers as values, and nothing that is rotated or normed: results can be told
/// exactly.
Input counted_input(Heads heads, const std::function<float(int position, int column)>& query,
                    const std::function<float(int position, int column)>& key) {
  Input input(heads, {150, 33}, 7);
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
    Input& input, const Setting& setting,
    const std::function<double(int, int, const std::function<float(int)>&)>& expected) {
  constexpr double tolerance = 2e-5; // One position more or less is a hundred times as much.
  const Heads& heads = input.heads;
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

TEST_CASE("every position that a row sees counts once, and the one asked for is found") {
  Random random(9);
  const Matrix signs(150, 128, random);
  const auto code = [&](int position, int column) { // Unlike for any two positions.
    return std::copysign(1.0f, signs.at(position, column));
  };
  const auto wanted = [](int first, int last) { return first + (last - first) * 5 / 7; };
  for (const std::string& name : backends())
    for (const Heads& heads : {Heads{3, 1, 48}, Heads{4, 2, 128}, Heads{20, 2, 32}})
      for (const auto& [page_tokens, window] : {std::pair(16, 0), {6, 21}, {32, 70}, {48, 64}}) {
        Setting setting;
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
        Input all = counted_input(
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
        Input one = counted_input(heads, ask, code);
        check_counted(one, setting, [&](int first, int last, const auto& value) {
          return double(value(wanted(first, last)));
        });
      }
}

TEST_CASE("a value that is not finite shows in the rows that see it, and in no other") {
  constexpr int position = 70;
  for (const std::string& name : backends()) {
    for (const auto& [dtype, window] :
         {std::pair(DType::bf16, 0), std::pair(DType::bf16, 12), std::pair(DType::f32, 0)})
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
        CAPTURE(name);
        CAPTURE(window);
        CAPTURE(bad);
        Input input({4, 2, 32}, {120}, 8);
        Setting setting;
        setting.kernel = name;
        setting.dtype = dtype;
        setting.window = window;
        const Matrix clean = attend(input, setting)[0];
        input.qkv[0].tensor().row(position)[6 * 32 + 3] = bad; // Of the first kv head.
        const Matrix results = attend(input, setting)[0];
        const int after = window > 0 ? position + window : results.rows;
        CHECK(results.slice(0, position) == clean.slice(0, position));
        CHECK(results.slice(after, results.rows - after) ==
              clean.slice(after, results.rows - after));
        for (int p = position; p < after; ++p) {
          CHECK(!std::isfinite(results.at(p, 3)));
          CHECK(results.at(p, 2 * 32 + 3) == clean.at(p, 2 * 32 + 3));
        }
      }
  }
}
