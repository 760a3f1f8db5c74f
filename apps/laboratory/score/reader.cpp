#include "apps/laboratory/score/reader.hpp"

#include "apps/laboratory/timed_step.hpp"

#include <utility>
#include <vector>

namespace paceline::apps {
namespace {

constexpr int page_tokens = 16;

} // namespace

Result<Reader> Reader::open(std::shared_ptr<const models::Model> model,
                            std::shared_ptr<gpu::Lane> lane, int context) {
  Reader reader;
  reader.model_ = std::move(model);
  reader.lane_ = std::move(lane);
  const auto pages = std::size_t((context + page_tokens - 1) / page_tokens);
  return gpu::KvPool::create(reader.model_->device(), reader.model_->kv_shape(page_tokens), pages,
                             1)
      .and_then([&](auto pool) {
        reader.pool_ = std::move(pool);
        std::vector<gpu::PageRef> all;
        while (auto page = reader.pool_->take())
          all.push_back(std::move(page));
        reader.pages_ = gpu::PageTable::extend(nullptr, page_tokens, std::move(all));
        return reader.model_->make_workspace(reader_rows, reader_rows);
      })
      .map([&](auto workspace) {
        reader.workspace_ = std::move(workspace);
        return std::move(reader);
      });
}

Result<gpu::Tensor> Reader::read(int start, std::span<const TokenId> tokens) {
  const models::SequenceRows rows{pages_->ids, start, tokens, 0};
  return time_on(
             *lane_, 1, [&](gpu::Operations& ops) { model_->forward(ops, *workspace_); },
             [&] {
               model_->plan({&rows, 1}, *pool_, *workspace_);
             })
      .map([&](const auto&) { return workspace_->logits(); });
}

} // namespace paceline::apps
