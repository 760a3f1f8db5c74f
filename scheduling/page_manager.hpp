// The KV caches: grants pages of all pools, shares prefixes, keeps the ledger. Plain logic.
#pragma once

#include "base/telemetry.hpp"
#include "scheduling/prefix_cache.hpp"

#include <memory>
#include <optional>
#include <unordered_map>

namespace paceline::scheduling {

/// Where a pool's pages are: total = free + cached + used + quarantined. An idle engine has
/// nothing used and nothing quarantined.
struct KvLedger {
  std::size_t total = 0;
  std::size_t free = 0;
  std::size_t cached = 0;      ///< Named by the prefix cache only: free as soon as wanted.
  std::size_t used = 0;        ///< Named by a sequence's table.
  std::size_t quarantined = 0; ///< Named by neither: held by steps in flight until they retire.
};

/// Keeps nothing that is not also known to reference counts: the pools outlive it, and what a
/// predecessor granted comes back to them by itself.
class PageManager {
public:
  struct PoolConfig {
    std::shared_ptr<gpu::KvPool> pages;
    /// Positions that the model's rows see at most (models::Model::window), whose pages behind it
    /// are given back; 0: all stay. A draft's do: a lane that takes over from one that failed
    /// reads them anew.
    int attention_window = 0;
    /// Forks in flight take pages without asking: the prefix cache leaves some free.
    bool has_forks = false;
  };
  struct Config {
    PerPool<PoolConfig> pools; ///< A page of each has room for a page's tokens of the target's.
    std::shared_ptr<base::Telemetry> telemetry;
  };
  explicit PageManager(Config config);
  PageManager(const PageManager&) = delete;
  PageManager& operator=(const PageManager&) = delete;

  /// Drops what the sequence had; then all that was asked for, or nothing.
  KvGrant reserve(const KvReserve& wanted);
  KvGrant grow(const KvGrow& wanted);
  void release(const KvRelease& done);
  void publish(const KvPublish& right);
  void reset();

  /// Once after each of these: counts it as a message, and shows the ledger.
  void account();

  KvLedger ledger(Pool pool) const;

private:
  using Tables = PerPool<gpu::PageTableRef>;

  bool windowed(Pool pool) const { return pools_[pool].attention_window > 0; }
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
