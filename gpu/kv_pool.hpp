// Paged key-value memory of one (device, model). A page is free again when its last reference is
// dropped. Tables hold references, and so does every step in flight, so memory that a stalled lane
// may still touch is never handed out ("quarantine").
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

/// The sizes of what one page holds: for each of `page_tokens` slots, `token_bytes` bytes. The
/// layout inside the page is the business of the model and its kernels (see KvLayout for the
/// transformer's).
struct KvShape {
  int page_tokens = 16;
  std::size_t token_bytes = 0;
  /// Floats of the token's hidden states that each slot has besides, for a head on the model
  /// (KvPool::features). They are not part of a page's block, so copies of pages leave them out.
  int features = 0;
  /// Number of shards of the model; each has as much memory, with the same page numbers.
  int shards = 1;
  /// Bytes of a sequence's state, if the model has recurrent layers (recurrence.hpp).
  std::size_t state_bytes = 0;

  std::size_t page_bytes() const { return std::size_t(page_tokens) * token_bytes; }
  std::size_t feature_bytes() const {
    return std::size_t(page_tokens) * std::size_t(features) * sizeof(float);
  }
  /// Returns the device memory for each page, all shards together.
  std::size_t bytes() const { return std::size_t(shards) * (page_bytes() + feature_bytes()); }
};

/// One page, or one state, by number. It goes back to the pool when the last reference is dropped.
struct Page {
  std::uint32_t id = 0;
};
using PageRef = std::shared_ptr<const Page>;

/// A state of recurrent layers that holds a sequence's positions before `position`.
struct StateAt {
  PageRef state; ///< Null: there is none.
  int position = 0;
};

/// The pages of one sequence, in order of position. It is immutable: growing makes a new table, so
/// a step that holds a table needs no lock.
struct PageTable {
  int page_tokens = 16;
  std::vector<PageRef> pages;     ///< Null: dropped, because no row sees its positions any more.
  std::vector<std::uint32_t> ids; ///< pages[i]->id, as kernels want them; 0 for null.
  PageRef state;                  ///< Null: the model has no recurrent layers.
  StateAt begin;    ///< What `state` is a copy of when the sequence's first pass begins.
  StateAt snapshot; ///< Where the pass that comes to this position leaves a copy of `state`.

  int capacity() const { return int(pages.size()) * page_tokens; }
  static std::shared_ptr<const PageTable> extend(const PageTable* old, int page_tokens,
                                                 std::vector<PageRef> more);
  /// Returns the table with a state.
  static std::shared_ptr<const PageTable> with(const PageTable& old, PageRef state, StateAt begin,
                                               StateAt snapshot);
  /// Returns the table without the pages that lie wholly before `position`.
  static std::shared_ptr<const PageTable> since(std::shared_ptr<const PageTable> old, int position);
};
using PageTableRef = std::shared_ptr<const PageTable>;

/// Numbers of pages in the pool: free + out = total. `out` counts pages with any reference, and
/// `states` such states; `free_states` have none.
struct PoolLedger {
  std::size_t total = 0;
  std::size_t free = 0;
  std::size_t out = 0;
  std::size_t states = 0;
  std::size_t free_states = 0;
};

/// The pages of one model on one device. `take` and `ledger` may be called, and references dropped,
/// on any thread.
class KvPool : public std::enable_shared_from_this<KvPool> {
public:
  /// Creates a pool; on a group of devices, shape.shards is the number of its devices. states: used
  /// if the shape has states.
  static Result<std::shared_ptr<KvPool>> create(Device& device, KvShape shape, std::size_t pages,
                                                std::size_t states = 0);

  /// Returns a page, or null when none is free. Its contents are whatever was there.
  PageRef take();
  /// Does the same with a state, which holds no position.
  PageRef take_state();
  PoolLedger ledger() const;
  const KvShape& shape() const { return shape_; }
  /// Returns a shard's part of every page; this pool is the first shard's.
  const KvPool& shard(int number) const {
    return number == 0 ? *this : *others_[std::size_t(number) - 1];
  }
  std::byte* page(std::uint32_t id) const { return base_ + std::size_t(id) * shape_.page_bytes(); }
  std::byte* state(std::uint32_t id) const {
    return states_->data() + std::size_t(id) * shape_.state_bytes;
  }
  /// The positions that a state holds. Threads: the lane's that runs the model's passes.
  int& held(std::uint32_t state) const { return held_[state]; }
  /// Returns the hidden states of all slots: [pages * page_tokens, KvShape::features].
  Tensor features() const { return features_; }
  /// Returns the row of `features` for a position of the sequence that has these pages.
  std::int32_t feature_row(std::span<const std::uint32_t> pages, int position) const {
    const int page_tokens = shape_.page_tokens;
    return std::int32_t(pages[std::size_t(position / page_tokens)]) * page_tokens +
           position % page_tokens;
  }

private:
  static Result<std::shared_ptr<KvPool>> create_shards(Device& group, KvShape shape,
                                                       std::size_t pages);
  KvPool(KvShape shape, std::shared_ptr<Buffer> memory, std::size_t pages);
  void add_states(std::shared_ptr<Buffer> memory, std::size_t states);
  PageRef take_from(std::vector<std::uint32_t>& free);
  void give_back(std::vector<std::uint32_t>& free, std::uint32_t id);

  KvShape shape_;
  std::shared_ptr<Buffer> memory_;
  std::byte* base_ = nullptr;
  Tensor features_; ///< Lies after the pages.
  std::size_t total_ = 0;
  std::shared_ptr<Buffer> states_; ///< Null: the model has none.
  mutable std::vector<int> held_;  ///< By state.
  mutable std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> free_states_;
  std::vector<std::shared_ptr<KvPool>> others_; ///< Other shards' pools, which give out no pages.
};

} // namespace paceline::gpu
