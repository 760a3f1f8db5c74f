// Paged key-value memory of one (device, model). A page is free again when its last reference is
// dropped: tables hold references, and so does every step in flight, so memory that a stalled
// lane may still touch is never handed out ("quarantine").
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace paceline::gpu {

class Device;

/// What one page holds: for each of `page_tokens` slots, `token_bytes` bytes. How a model lays
/// them out inside the page is the model's and its kernels' own affair (see KvLayout for the
/// transformer's).
struct KvShape {
  int page_tokens = 16;
  std::size_t token_bytes = 0;
  /// Floats that a slot has besides, of the token's hidden states: what a head on the model reads
  /// (KvPool::features). They are no part of a page's block: whoever copies pages leaves them out.
  int features = 0;
  /// Of a model in shards: so many have as much each, with pages of the same numbers.
  int shards = 1;

  std::size_t page_bytes() const { return std::size_t(page_tokens) * token_bytes; }
  std::size_t feature_bytes() const {
    return std::size_t(page_tokens) * std::size_t(features) * sizeof(float);
  }
  /// Of the device's memory, for each page; of all shards together.
  std::size_t bytes() const { return std::size_t(shards) * (page_bytes() + feature_bytes()); }
};

/// One page, by number; returning it is the reference count's business.
struct Page {
  std::uint32_t id = 0;
};
using PageRef = std::shared_ptr<const Page>;

/// The pages of one sequence, in order of position. Immutable: growing makes a new table, so a
/// step that holds a table needs no lock.
struct PageTable {
  int page_tokens = 16;
  std::vector<PageRef> pages;     ///< Null: let go of, for no row looks there any more.
  std::vector<std::uint32_t> ids; ///< pages[i]->id, as kernels want them; 0 for null.

  int capacity() const { return int(pages.size()) * page_tokens; }
  static std::shared_ptr<const PageTable> extend(const PageTable* old, int page_tokens,
                                                 std::vector<PageRef> more);
  /// The same table without the pages that lie wholly before `position`.
  static std::shared_ptr<const PageTable> since(std::shared_ptr<const PageTable> old, int position);
};
using PageTableRef = std::shared_ptr<const PageTable>;

/// Pages in the pool: free + out = total. `out` counts pages with any reference.
struct PoolLedger {
  std::size_t total = 0;
  std::size_t free = 0;
  std::size_t out = 0;
};

/// Threads: `take` and `ledger` from any; references may be dropped on any thread.
class KvPool : public std::enable_shared_from_this<KvPool> {
public:
  /// Of shards: on the devices of a group, as many as it has.
  static Result<std::shared_ptr<KvPool>> create(Device& device, KvShape shape, std::size_t pages);

  /// A page, or null when none is free. Its contents are whatever was there.
  PageRef take();
  PoolLedger ledger() const;
  const KvShape& shape() const { return shape_; }
  /// The memory of a shard's part of every page; the first one's is this.
  const KvPool& shard(int number) const {
    return number == 0 ? *this : *others_[std::size_t(number) - 1];
  }
  std::byte* page(std::uint32_t id) const { return base_ + std::size_t(id) * shape_.page_bytes(); }
  /// [pages * page_tokens, KvShape::features]
  Tensor features() const { return features_; }
  /// The row of `features` for a position of the sequence that has these pages.
  std::int32_t feature_row(std::span<const std::uint32_t> pages, int position) const {
    const int page_tokens = shape_.page_tokens;
    return std::int32_t(pages[std::size_t(position / page_tokens)]) * page_tokens +
           position % page_tokens;
  }

private:
  static Result<std::shared_ptr<KvPool>> create_shards(Device& group, KvShape shape,
                                                       std::size_t pages);
  KvPool(KvShape shape, std::shared_ptr<Buffer> memory, std::size_t pages);
  void give_back(std::uint32_t id);

  KvShape shape_;
  std::shared_ptr<Buffer> memory_;
  std::byte* base_ = nullptr;
  Tensor features_; ///< Behind the pages.
  std::size_t total_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::vector<std::shared_ptr<KvPool>> others_; ///< Of the other shards; they give no pages.
};

} // namespace paceline::gpu
