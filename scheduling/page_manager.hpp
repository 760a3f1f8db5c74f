// Manages the KV caches: grants pages of all pools, shares prefixes, keeps the ledger. It is plain
// logic.
#pragma once

#include "base/telemetry.hpp"
#include "scheduling/prefix_cache.hpp"

#include <memory>
#include <optional>
#include <unordered_map>

namespace paceline::scheduling {

/// The ledger of a pool says where its pages are: total = free + cached + used + quarantined. An
/// idle engine has nothing used and nothing quarantined.
struct KvLedger {
  std::size_t total = 0;
  std::size_t free = 0;
  std::size_t cached = 0;      ///< Pages that only the prefix cache names: free as soon as wanted.
  std::size_t used = 0;        ///< Pages that a sequence's table names.
  std::size_t quarantined = 0; ///< Pages that only steps in flight hold, until they retire.
};

/// Keeps nothing that is not also known to reference counts: the pools outlive it, and pages that a
/// predecessor granted come back to them by themselves.
class PageManager {
public:
  struct PoolConfig {
    std::shared_ptr<gpu::KvPool> pages;
    /// Positions that the model's rows see at most (models::Model::window): pages behind them are
    /// given back. 0: all stay. A draft's pages all stay, since a lane that takes over from one
    /// that failed reads them anew.
    int attention_window = 0;
    /// Forks in flight take pages without asking, so the prefix cache leaves some free.
    bool has_forks = false;
  };
  struct Config {
    PerPool<PoolConfig> pools; ///< A page of each pool has room for the tokens of a target's page.
    std::shared_ptr<base::Telemetry> telemetry;
  };
  explicit PageManager(Config config);
  PageManager(const PageManager&) = delete;
  PageManager& operator=(const PageManager&) = delete;

  /// Drops what the sequence had, and then grants all that was asked for, or nothing. Where layers
  /// are recurrent a table comes with a state, which the sequence has to itself. A target's may
  /// begin as a copy of a kept one; a draft's begins empty.
  KvGrant reserve(const KvReserve& wanted);
  KvGrant grow(const KvGrow& wanted);
  void release(const KvRelease& done);
  void publish(const KvPublish& right);
  void reset();

  /// Counts a message, and publishes the ledger; called once after each of these functions.
  void account();

  KvLedger ledger(Pool pool) const;

private:
  using Tables = PerPool<gpu::PageTableRef>;

  bool windowed(Pool pool) const { return pools_[pool].attention_window > 0; }
  bool recurrent(Pool pool) const { return pools_[pool].pages->shape().state_bytes > 0; }
  bool add_states(Tables& tables, gpu::StateAt begin, int length);
  gpu::PageRef take_state();
  gpu::StateAt snapshot_for(int length, int held);
  KvGrant grant(SequenceId sequence, Tables found, const PerPool<int>& capacity, int read);
  std::size_t missing(const gpu::PageTableRef& table, int capacity) const;
  std::size_t shortage(Pool pool, std::size_t pages) const;
  std::size_t spare(Pool pool) const;
  bool make_room(const PerPool<std::size_t>& pages);
  void leave_spare();
  std::optional<Tables> extend(const Tables& tables, const PerPool<int>& capacity);
  void adopt(SequenceId sequence, Tables tables);
  void drop(SequenceId sequence);

  PerPool<PoolConfig> pools_;
  std::shared_ptr<base::Telemetry> telemetry_;
  int page_tokens_;
  PerPool<PageBook> books_;
  PrefixCache prefixes_;
  std::unordered_map<SequenceId, Tables> tables_;
};

} // namespace paceline::scheduling
