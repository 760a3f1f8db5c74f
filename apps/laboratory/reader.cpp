#include "apps/laboratory/reader.hpp"

#include "apps/laboratory/timed_step.hpp"

#include <utility>

namespace paceline::apps {
namespace {

constexpr int page_tokens = 16;

} // namespace

Result<Reader> Reader::open(std::shared_ptr<const models::Model> model,
                            std::shared_ptr<gpu::Lane> lane, int positions, int rows,
                            int logit_rows) {
  Reader reader;
  reader.model_ = std::move(model);
  reader.lane_ = std::move(lane);
  const auto pages = std::size_t((positions + page_tokens - 1) / page_tokens);
  return gpu::KvPool::create(reader.model_->device(), reader.model_->kv_shape(page_tokens), pages,
                             1)
      .and_then([&](auto pool) {
        reader.pool_ = std::move(pool);
        std::vector<gpu::PageRef> all;
        while (auto page = reader.pool_->take())
          all.push_back(std::move(page));
        reader.pages_ = gpu::PageTable::extend(nullptr, page_tokens, std::move(all));
        return reader.model_->make_workspace(rows, logit_rows);
      })
      .map([&](auto workspace) {
        reader.workspace_ = std::move(workspace);
        return std::move(reader);
      });
}

Result<std::vector<double>> Reader::read(int start, std::span<const TokenId> tokens,
                                         int logits_from, int times, bool fast) {
  const models::SequenceRows rows{pages_->ids, start, tokens, logits_from, fast};
  return time_on(
      *lane_, times, [&](gpu::Operations& ops) { model_->forward(ops, *workspace_); },
      [&] {
        if (pool_->shape().state_bytes > 0) // As far as the pages.
          pool_->held(rows.state) = start;
        model_->plan({&rows, 1}, *pool_, *workspace_);
      });
}

} // namespace paceline::apps
