#include "tests/gpu/attention_rig.hpp"

#include "gpu/kv_pool.hpp"

namespace paceline::gpu::testing {
namespace {

/// Feeds the input through rope_store and attention.
class AttentionRunner {
public:
  AttentionRunner(AttentionInput& input, const AttentionSetting& setting)
      : input_(input), setting_(setting),
        rig_(setting.kernel, setting.threads), layout_{2, input.heads.kv, input.heads.dim,
                                                       setting.page_tokens, setting.cached} {
    const int pages_each = input.positions() / setting.page_tokens + 1;
    const std::size_t before = 48; // Bytes of each position in layers of other shapes.
    layout_.begin = before * std::size_t(setting.page_tokens);
    pool_ = KvPool::create(*rig_.device, {setting.page_tokens, layout_.token_bytes() + before},
                           std::size_t(pages_each) * 2 * input.lengths.size())
                .value();
    // NaN where nothing was written; sequences' pages interleaved, so that none is at its place.
    std::fill_n(reinterpret_cast<std::uint32_t*>(pool_->page(0)),
                pool_->shape().page_bytes() / 4 * pool_->ledger().total, 0x7FC07FC0u);
    tables_.resize(2 * input.lengths.size()); // The second half is of those that have copies.
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
      if (setting_.copied)
        map.copies.push_back({r, sequence + int(input_.lengths.size())});
      std::copy_n(input_.qkv[std::size_t(sequence)].tensor().row(position), qkv.cols,
                  qkv.tensor().row(r));
    }
    const KvLayer cache{pool_.get(), layout_, 1};
    RopeTable rope{input_.cos.tensor(), input_.sin.tensor()};
    rope.cos.cols = rope.sin.cols = setting_.pairs(input_.heads.dim);
    HeadNorms norms;
    if (setting_.norms)
      norms = {input_.query_norm.data(), input_.key_norm.data(), attention_norm_epsilon,
               input_.value_norm.data()};
    AttentionOptions options = setting_.options(input_.heads.dim);
    if (setting_.sinks)
      options.sinks = input_.sinks.data();
    RowMap read = map;
    for (const RowMap::Copy& copy : map.copies)
      read.sequence[std::size_t(copy.row)] = copy.sequence;
    for (int r = count - 2; setting_.blocks && r >= 0; --r)
      if (map.sequence[std::size_t(r)] == map.sequence[std::size_t(r) + 1])
        read.position[std::size_t(r)] = read.position[std::size_t(r) + 1];
    Matrix alone(count, out.cols);
    for (int r = 0; r < count; ++r)
      std::copy_n(qkv.tensor().row(r), alone.cols, alone.tensor().row(r));
    rig_.run([&](Operations& ops) {
      if (setting_.shared) {
        const KvLayer first{pool_.get(), layout_, 0};
        const Tensor given = qkv.tensor().columns(alone.cols, qkv.cols - alone.cols);
        ops.rope_store(qkv.tensor(), input_.heads.query, rope, norms, map, first);
        ops.rope_store(given, 0, {}, {}, map, cache);
        ops.rope_store(alone.tensor(), input_.heads.query, rope, norms, map, cache);
      } else {
        ops.rope_store(qkv.tensor(), input_.heads.query, rope, norms, map, cache);
      }
      ops.attention(out.tensor(), (setting_.shared ? alone : qkv).tensor(), input_.heads.query,
                    options, read, cache);
    });
    for (int r = 0; r < count; ++r) {
      const auto [sequence, position] = rows[std::size_t(r)];
      std::copy_n(out.tensor().row(r), out.cols,
                  results[std::size_t(sequence)].tensor().row(position));
    }
  }

  AttentionInput& input_;
  AttentionSetting setting_;
  Rig rig_;
  KvLayout layout_;
  std::shared_ptr<KvPool> pool_;
  std::vector<PageRef> pages_;
  std::vector<std::vector<std::uint32_t>> tables_;
};

} // namespace

std::vector<Matrix> attend(AttentionInput& input, const AttentionSetting& setting) {
  return AttentionRunner(input, setting).run();
}

} // namespace paceline::gpu::testing
