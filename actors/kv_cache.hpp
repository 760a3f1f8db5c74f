#pragma once
#include "actors/telemetry.hpp"
#include "messages/interfaces.hpp"
#include <map>
namespace paceline::actors {
class KvCache {
public:
  using Handle = messages::KvCacheActor;
  static constexpr const char* name = "kv_cache";
  KvCache(Handle::pointer, std::shared_ptr<gpu::KvPool> t, std::shared_ptr<gpu::KvPool> d,
          std::shared_ptr<Telemetry> tel)
      : t_(t), d_(d), tel_(tel) {}
  Handle::behavior_type make_behavior() {
    using namespace messages;
    return {[this](const KvReserve& r) {
              tables_.erase(r.sequence);
              return grant(r.sequence, r.capacity);
            },
            [this](const KvGrow& r) { return grant(r.sequence, r.capacity); },
            [this](const KvRelease& r) { tables_.erase(r.sequence); }, [](const KvPublish&) {},
            [](const Ping&) { return Pong{}; }};
  }

private:
  bool fill(gpu::KvPool& pool, gpu::PageTableRef& table, int capacity) {
    std::vector<gpu::PageRef> more;
    const int per = pool.shape().page_tokens;
    int have = table ? table->capacity() : 0;
    for (; have < capacity; have += per) {
      auto p = pool.take();
      if (!p)
        return false;
      more.push_back(p);
    }
    table = gpu::PageTable::extend(table.get(), per, std::move(more));
    return true;
  }
  messages::KvGrant grant(messages::SequenceId id, int capacity) {
    auto& [t, d] = tables_[id];
    messages::KvGrant g;
    g.sequence = id;
    g.granted = fill(*t_, t, capacity) && (!d_ || fill(*d_, d, capacity));
    g.target = t;
    g.draft = d;
    return g;
  }
  std::shared_ptr<gpu::KvPool> t_, d_;
  std::shared_ptr<Telemetry> tel_;
  std::map<messages::SequenceId, std::pair<gpu::PageTableRef, gpu::PageTableRef>> tables_;
};
} // namespace paceline::actors
