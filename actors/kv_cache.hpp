// The KV-cache manager: grants pages of both pools, shares prefixes, keeps the ledger.
#pragma once

#include "actors/prefix_cache.hpp"
#include "actors/telemetry.hpp"
#include "messages/interfaces.hpp"

#include <memory>
#include <optional>
#include <unordered_map>

namespace paceline::actors {

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
class KvCache {
public:
  using Handle = messages::KvCacheActor;
  static constexpr const char* name = "kv_cache";

  /// draft: null without a draft model, else with pages of as many tokens as the target's.
  /// attention_window: positions that the target's rows see at most (models::Model::window), whose
  /// pages behind it are given back; 0: all. A draft's pages all stay: a lane that takes over from
  /// one that failed reads them anew.
  KvCache(Handle::pointer self, std::shared_ptr<gpu::KvPool> target,
          std::shared_ptr<gpu::KvPool> draft, int attention_window,
          std::shared_ptr<Telemetry> telemetry);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  Handle::behavior_type make_behavior();

  /// Drops what the sequence had; then all that was asked for, or nothing.
  messages::KvGrant reserve(const messages::KvReserve& wanted);
  messages::KvGrant grow(const messages::KvGrow& wanted);
  void release(const messages::KvRelease& done);
  void publish(const messages::KvPublish& right);
  void reset();

  /// Of a pool that is there.
  KvLedger ledger(Pool pool) const;

private:
  using Tables = PerPool<gpu::PageTableRef>;

  bool has(Pool pool) const { return pools_[pool] != nullptr; }
  messages::KvGrant grant(messages::SequenceId sequence, Tables found, const PerPool<int>& capacity,
                          int target_read);
  std::size_t missing(const Tables& tables, Pool pool, int capacity) const;
  std::size_t shortage(Pool pool, std::size_t pages) const;
  bool make_room(const PerPool<std::size_t>& pages);
  std::optional<Tables> extend(const Tables& tables, const PerPool<int>& capacity);
  void adopt(messages::SequenceId sequence, Tables tables);
  void drop(messages::SequenceId sequence);
  /// Once a message: counts it, and shows the ledger.
  void account();

  PerPool<std::shared_ptr<gpu::KvPool>> pools_;
  std::shared_ptr<Telemetry> telemetry_;
  int page_tokens_;
  int attention_window_;
  PerPool<PageBook> books_;
  PrefixCache prefixes_;
  std::unordered_map<messages::SequenceId, Tables> tables_;
};

} // namespace paceline::actors
