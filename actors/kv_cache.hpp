// The KV-cache manager actor: an adapter around scheduling/page_manager.hpp.
#pragma once

#include "messages/interfaces.hpp"
#include "scheduling/page_manager.hpp"

namespace paceline::actors {

class KvCache {
public:
  using Handle = messages::KvCacheActor;
  static constexpr const char* name = "kv_cache";

  KvCache(Handle::pointer, scheduling::PageManager::Config config) : pages_(std::move(config)) {}
  Handle::behavior_type make_behavior();

private:
  scheduling::PageManager pages_;
};

} // namespace paceline::actors
